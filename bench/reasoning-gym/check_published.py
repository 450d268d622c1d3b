"""Checks what docs/benchmarks.md takes from the authors' evaluation: its questions are those of easy.jsonl, and the published scores are its scores.

    python bench/reasoning-gym/check_published.py <checkout of github.com/open-thought/reasoning-gym-eval>

Prints every difference; without any, only what was compared.
"""

import argparse
import json
import pathlib
import re

HERE = pathlib.Path(__file__).parent
EXPERIMENTS = "reasoninggym-paper-experiments"
# The row of the table that is not theirs.
OURS = "SmolLM2-135M-Instruct, measured here"
# The row of the table whose questions are others.
OTHER = "Qwen2.5-3B-Instruct, other questions"
OTHER_FILE = "inter-generalisation/inter_original_to_arithmetic/original_to_arithmetic.json"


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def table():
    """The published scores by model: {task: percent}."""
    text = (HERE.parent.parent / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    lines = [line for line in text.split("### Published scores")[1].split("\n## ")[0].split("\n") if line.startswith("|")]
    cells = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]
    header, rows = cells[0], cells[2:]
    return {row[0]: {task: int(score) for task, score in zip(header[1:], row[1:]) if score} for row in rows if row[0] != OURS}


def simple(name):
    return re.sub(r"[^a-z0-9]", "", name.lower())


def questions_by_task():
    asked = {}
    for line in (HERE / "easy.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        asked.setdefault(entry["metadata"]["source_dataset"], []).append([entry["question"].strip(), entry["answer"]])
    return asked


def scores_of(model, runs, tasks):
    """The mean scores of a model in percent: by task, and of all tasks."""
    [means] = [means for path, means in runs.items() if simple(model) in simple(path.name)]
    scores = {task: 100 * means[task] for task in tasks}
    return {**scores, "all": sum(scores.values()) / len(scores)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("checkout", type=pathlib.Path)
    experiments = parser.parse_args().checkout / EXPERIMENTS
    easy = experiments / "zero-shot" / "easy"
    runs = {path: read(path / "summary.json")["dataset_mean_scores"] for path in easy.iterdir() if path.is_dir()}
    asked = questions_by_task()
    for path in runs:
        for task, entries in asked.items():
            [file] = path.glob(f"*/{task}.json")
            theirs = [[one["question"].strip(), str(one["expected_answer"])] for one in read(file)["results"]]
            if theirs != entries:
                print(f"{path.name} asks other questions of {task}")
    [arithmetic] = read(experiments / OTHER_FILE)["categories"]
    others = {one["name"]: 100 * one["average_score"] for one in arithmetic["datasets"]}
    compared = table()
    for model, scores in compared.items():
        theirs = others if model == OTHER else scores_of(model, runs, asked)
        for task, score in scores.items():
            if round(theirs[task]) != score:
                print(f"{model}, {task}: {score} in the table, {theirs[task]:.1f} in its file")
    questions = sum(map(len, asked.values()))
    print(f"compared: {questions} questions in {len(runs)} evaluations, the scores of {len(compared)} models")


if __name__ == "__main__":
    main()
