"""Runs the benchmarks' official code on the cases that write-cases.ts has written, and prints expected.json (see README.md).

    python run.py <folder of cases> <GAIA's scorer.py> <its GAIA.py> <its leaderboard's app.py> <checkout of xbench-evals> <WebWalker's evaluate.py> > expected.json

Needs reasoning-gym==0.1.25, datasets==3.6.0, pandas, numpy and tqdm. WebWalker's evaluate.py loads its data set and its judge when it is imported; both are stand-ins here.
"""

import base64
import contextlib
import csv
import hashlib
import importlib.util
import io
import json
import os
import sys
import types
import warnings

import run_gaia


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return json.load(file)


def gaia(folder, path):
    scorer = load("gaia_scorer", path)
    warnings.simplefilter("ignore")
    cases = read(folder, "gaia.json")
    return "".join("1" if scorer.question_scorer(one["answer"], one["reference"]) else "0" for one in cases)


def reasoning_gym_scores(folder):
    import reasoning_gym

    cases = read(folder, "reasoning-gym.json")
    scorers = {task: reasoning_gym.create_dataset(task, seed=1, size=1) for task in {one["task"] for one in cases}}
    scores = []
    for one in cases:
        entry = {"answer": one["reference"], "metadata": {}}
        scores.append(round(scorers[one["task"]].score_answer(one["answer"], entry), 6))
    return scores


def xbench_rows(evals, path):
    """The hash of the decrypted rows of a file."""
    rows = []
    with open(path, encoding="utf-8-sig") as file:
        for row in csv.DictReader(file):
            opened = [evals.xor_decrypt(base64.b64decode(row[name]), row["canary"]).decode() for name in ("prompt", "answer")]
            rows.append([row["id"], *opened])
    text = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def xbench(folder, checkout):
    # The grader's module of model clients needs keys; no model is asked here.
    language_models = types.ModuleType("language_models")
    language_models.get_llm_response = lambda *_arguments, **_options: None
    sys.modules["language_models"] = language_models
    sys.path.insert(0, checkout)
    evals, grader = load("xbench_evals", os.path.join(checkout, "xbench_evals.py")), sys.modules["eval_grader"]
    published = {name: xbench_rows(evals, os.path.join(checkout, "data", name)) for name in ("DeepSearch-2505.csv", "DeepSearch-2510.csv")}
    cases = read(folder, "xbench-match.json")
    matches = "".join(str(grader.grade_question("", one["reference"], "最终答案:" + one["answer"])[0]) for one in cases)
    return {"rows": xbench_rows(evals, os.path.join(folder, "xbench.csv")), "matches": matches, "published": published}


def webwalkerqa(folder, path):
    tasks = read(folder, "webwalkerqa.json")
    columns = {name: [task[name] for task in tasks] for name in ("question", "answer", "info")}
    datasets = types.ModuleType("datasets")
    datasets.load_dataset = lambda *_arguments, **_options: columns

    class Evaluator:
        def evaluate_strings(self, prediction, input, reference):
            return {"score": 1 if prediction == f"{input}\n{reference}" else 0}

    evaluation = types.ModuleType("langchain.evaluation")
    evaluation.load_evaluator = lambda _name: Evaluator()
    sys.modules.update({"datasets": datasets, "langchain": types.ModuleType("langchain"), "langchain.evaluation": evaluation})
    output = os.path.join(folder, "webwalkerqa-graded.jsonl")
    if os.path.exists(output):
        os.remove(output)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        load("evaluate", path).eval_result(os.path.join(folder, "webwalkerqa-submission.jsonl"), output)
    with open(output, encoding="utf-8") as file:
        scores = {one["question"]: one["score"] for one in map(json.loads, file)}
    graded = "".join(str(scores[question]) for question in columns["question"])
    return {"scores": graded, "report": read(folder, "webwalkerqa-graded_report.json")}


def main():
    folder, gaia_path, gaia_script, gaia_app, xbench_checkout, walker_path = sys.argv[1:]
    with contextlib.redirect_stdout(io.StringIO()):
        expected = {
            "gaia": gaia(folder, gaia_path),
            "gaiaFiles": run_gaia.files(folder, gaia_script, read, load),
            "gaiaParquet": run_gaia.parquet(folder, read),
            "gaiaSubmission": run_gaia.leaderboard(folder, gaia_app, read, load),
            "reasoningGym": reasoning_gym_scores(folder),
            "xbench": xbench(folder, xbench_checkout),
            "webwalkerqa": webwalkerqa(folder, walker_path),
        }
    json.dump(expected, sys.stdout)


if __name__ == "__main__":
    main()
