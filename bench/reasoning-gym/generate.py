# /// script
# requires-python = ">=3.10"
# dependencies = ["reasoning-gym==0.1.25"]
# ///
"""Writes entries of reasoning-gym's generators as JSON Lines, for `--suite reasoning-gym` and for training (docs/benchmarks.md).

    uv run bench/reasoning-gym/generate.py > bench/reasoning-gym/easy.jsonl
    uv run bench/reasoning-gym/generate.py --seed 1000000 --size 400 --as questions --without bench/reasoning-gym/easy.jsonl > train.jsonl

Without uv: `pip install reasoning-gym==0.1.25`, then `python` instead of `uv run`. The defaults, seed 45 and 50 entries of each task at the generator's
default difficulty, are those of the authors' zero-shot evaluation (github.com/open-thought/reasoning-gym-eval), so that scores cover the same questions.
Entry i of a task is drawn with the seed plus i, so if two seeds differ by at least the size, no entry of one file is drawn with the seed of an entry of
the other. Two draws can still give the same question: easy.jsonl asks for 8 * 7 more than once. So `--without` leaves out the questions of a file of
entries: in the second command, 6 of 2,800, all of them `products`.
"""

import argparse
import json
import sys

import reasoning_gym

TASKS = [
    "chain_sum",
    "basic_arithmetic",
    "decimal_chain_sum",
    "products",
    "leg_counting",
    "gsm_symbolic",
    "family_relationships",
]


def entry(task, index, drawn):
    """The fields of an entry that a loader or a scorer reads."""
    return {
        "question": drawn["question"],
        "answer": drawn["answer"],
        "metadata": {"source_dataset": task, "source_index": index},
    }


def question(task, index, drawn):
    """A question to train on, in the format of the user's own questions."""
    return {"id": f"{task}-{index}", "kind": task, "prompt": drawn["question"].strip(), "answer": drawn["answer"]}


def asked_in(path):
    """The texts of the questions in a file of entries."""
    if path is None:
        return set()
    with open(path, encoding="utf-8") as lines:
        return {json.loads(line)["question"].strip() for line in lines}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=45)
    parser.add_argument("--size", type=int, default=50, help="entries of each task")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS)
    parser.add_argument("--as", dest="form", choices=["entries", "questions"], default="entries")
    parser.add_argument("--without", metavar="FILE", help="a file of entries whose questions are left out")
    options = parser.parse_args()
    excluded = asked_in(options.without)
    form = entry if options.form == "entries" else question
    for task in options.tasks:
        drawn = reasoning_gym.create_dataset(task, seed=options.seed, size=options.size)
        for index in range(options.size):
            if drawn[index]["question"].strip() in excluded:
                continue
            line = json.dumps(form(task, index, drawn[index]), ensure_ascii=False)
            sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
