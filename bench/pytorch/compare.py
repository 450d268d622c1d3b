"""Measures mgrpo's engine and PyTorch in alternation on the same cores. Prints the medians and their ratio, and the share of the rate of large
matrix products on these cores that the engine's training reaches.

    python bench/pytorch/compare.py [rounds]      (from the repository's root, on a quiet machine; needs torch >= 2.5)
"""
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
THREADS = "2"
rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
found = {}


def measure(command, cwd):
    output = subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout
    for line in output.splitlines():
        if line.startswith("{"):
            figure = json.loads(line)
            found.setdefault(figure["name"], []).append(figure["value"])


for _ in range(rounds):
    measure(["node", "--import", "tsx", "bench/engine.ts"], ROOT)
    for script in ("train.py", "sample.py", "products.py"):
        measure([sys.executable, "-B", os.path.join(HERE, script), THREADS], HERE)
for kind in ("train", "sample"):
    ours, theirs = (statistics.median(found[f"{who}.{kind}"]) for who in ("engine", "pytorch"))
    print(json.dumps({"name": f"{kind}.ratio", "engine": ours, "pytorch": theirs, "ratio": round(ours / theirs, 2)}))
tokens, flop, rate = (statistics.median(found[name]) for name in ("engine.train", "train.flop", "pytorch.products"))
print(json.dumps({"name": "train.products", "gflops": round(rate, 1), "share": round(tokens * flop / 1e9 / rate, 2)}))
