"""GAIA's part of run.py: its loading script, its Parquet layout and its leaderboard, on the cases that write-cases.ts has written."""

import contextlib
import hashlib
import json
import os
import shutil
import sys
import tempfile
import types
from unittest.mock import MagicMock

LEVELS = {"2023_all": "metadata", **{f"2023_level{i}": f"metadata.level{i}" for i in (1, 2, 3)}}


def digest(rows):
    text = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def plain(rows, root):
    """Each row with its level as a number if it is one, and the content of its file in place of the path."""
    result = []
    for row in rows:
        content = ""
        if row["file_path"]:
            with open(os.path.join(root, row["file_path"]), encoding="utf-8") as file:
                content = file.read()
        level = row["Level"]
        with contextlib.suppress(ValueError):
            level = int(float(level))
        result.append([row["task_id"], row["Question"], level, row["Final answer"], row["file_name"], content])
    return result


def make_split(root, split, attachments):
    folder = os.path.join(root, "2023", split)
    os.makedirs(folder)
    for name, content in attachments.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(content)
    return folder


def loaded(builder, root, split, name):
    """The rows that the loading script yields, or None if it fails."""
    cache = tempfile.mkdtemp()
    try:
        made = builder(cache_dir=cache, config_name=name, base_path=root)
        made.download_and_prepare()
        return plain(made.as_dataset(split), root)
    except Exception:
        return None
    finally:
        shutil.rmtree(cache)


def files(folder, script, read, load):
    import datasets

    datasets.disable_progress_bars()
    # The library looks for the builder's module in sys.modules.
    module = sys.modules["gaia_script"] = load("gaia_script", script)
    attachments = read(folder, "gaia-attachments.json")
    digests = []
    with tempfile.TemporaryDirectory() as root:
        split_folders = {split: make_split(root, split, attachments) for split in ("test", "validation")}
        for one in read(folder, "gaia-files.json"):
            for split, split_folder in split_folders.items():
                # The other split's file must have a row of every level.
                other = [{"task_id": "x", "Question": "x", "Level": level, "Final answer": "x", "file_name": ""} for level in (1, 2, 3)]
                text = one["text"] if split == one["split"] else "\n".join(map(json.dumps, other))
                with open(os.path.join(split_folder, "metadata.jsonl"), "wb") as file:
                    file.write(text.encode())
            name = f"2023_level{one['level']}" if "level" in one else "2023_all"
            rows = loaded(module.GAIA_dataset, root, one["split"], name)
            digests.append("-" if rows is None else digest(rows)[:8])
    return " ".join(digests)


def parquet(folder, read):
    """The layout that the data set's README gives: one Parquet file per split and level, which `datasets` reads without a script."""
    import datasets
    import pandas

    rows = read(folder, "gaia-parquet.json")
    with tempfile.TemporaryDirectory() as root:
        split = make_split(root, "validation", read(folder, "gaia-attachments.json"))
        readme = ["---", "configs:"]
        for name, file in LEVELS.items():
            path = os.path.join(split, f"{file}.parquet")
            level = name.removeprefix("2023_level")
            pandas.DataFrame([row for row in rows if level in ("2023_all", row["Level"])]).to_parquet(path)
            readme += [f"- config_name: {name}", "  data_files:", "  - split: validation", f"    path: 2023/validation/{file}.parquet"]
        with open(os.path.join(root, "README.md"), "w") as file:
            file.write("\n".join([*readme, "---", ""]))
        sets = {name: datasets.load_dataset(root, name, split="validation", cache_dir=os.path.join(root, "cache")) for name in LEVELS}
        digests = {name: digest(plain(rows, root)) for name, rows in sets.items()}
        # The command of docs/benchmarks.md.
        converted = pandas.read_parquet(os.path.join(split, "metadata.parquet")).to_json(orient="records", lines=True)
    return {**digests, "converted": hashlib.sha256(converted.encode()).hexdigest()}


class Results(dict):
    """The leaderboard's table of results: it holds none, and keeps what is added."""

    class Table(list):
        def __getitem__(self, _column):
            return []

        def add_item(self, entry):
            return Results.Table([*self, entry])

    def __missing__(self, _split):
        return Results.Table()

    def push_to_hub(self, *_arguments, **_options):
        pass


def leaderboard(folder, app, read, load):
    """The scores of our submission file. Its page, its mail and its uploads are stand-ins."""
    gold, results = read(folder, "gaia-gold.json"), Results()
    tables = {"gaia-benchmark/results_public": MagicMock(), "gaia-benchmark/GAIA_internal": {"test": [], "validation": gold}}
    stand_ins = {name: MagicMock() for name in ("gradio", "pandas", "apscheduler.schedulers.background", "huggingface_hub")}
    stand_ins["datasets"] = types.SimpleNamespace(load_dataset=lambda name, *_arguments, **_options: tables[name])
    before, paths, cwd = dict(sys.modules), list(sys.path), os.getcwd()
    sys.modules.update(stand_ins)
    sys.path.insert(0, os.path.dirname(os.path.abspath(app)))
    app, submission = os.path.abspath(app), os.path.abspath(os.path.join(folder, "gaia-submission.jsonl"))
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        try:
            page = load("gaia_leaderboard", app)
            page.eval_results = results
            page.add_new_eval("validation", "m", "f", "", "", types.SimpleNamespace(name=submission), "o", "a@b.example")
            with open(os.path.join("scored", "o_m.jsonl"), encoding="utf-8") as file:
                scored = [json.loads(line) for line in file]
        finally:
            os.chdir(cwd)
            sys.path[:] = paths
            for name in set(sys.modules) - set(before):
                del sys.modules[name]
            sys.modules.update(before)
    [entry] = results["validation"]
    scores = "".join("1" if one["score"] else "0" for one in scored)
    return {"scores": scores, "report": {name: value for name, value in entry.items() if name.startswith("score")}}
