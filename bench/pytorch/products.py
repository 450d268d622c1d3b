"""Measures the rate of large matrix products alone, summed over one process per core, as the engine trains in one lane per core. Computes the FLOP of
engine.train per token. Prints two JSON lines."""
import json
import multiprocessing
import sys
import time

import torch

import model

SIZE, SECONDS, TOKENS = 1024, 3, 256


def rate(_):
    torch.set_num_threads(1)
    a, b = torch.randn(SIZE, SIZE), torch.randn(SIZE, SIZE)
    times = []
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        a @ b
        times.append(time.perf_counter() - start)
    return 2 * SIZE**3 / sorted(times)[len(times) // 2]


if __name__ == "__main__":
    cores = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    with multiprocessing.get_context("spawn").Pool(cores) as pool:
        rates = pool.map(rate, range(cores), chunksize=1)
    print(json.dumps({"name": "pytorch.products", "value": sum(rates) / 1e9, "unit": "GFLOP/s"}))
    # Each weight takes part in three products per token: forward, its own gradient, its input's gradient. Attention has two products forward
    # and four backward, and a query attends to half of the keys on average: computed but masked scores do not count.
    linear = (2 * model.HEADS + 2 * model.KV_HEADS) * model.HEAD * model.WIDTH + 3 * model.FFN * model.WIDTH
    weights = model.LAYERS * linear + model.VOCABULARY * model.WIDTH
    attention = model.LAYERS * 2 * model.HEADS * model.HEAD * TOKENS / 2
    print(json.dumps({"name": "train.flop", "value": 3 * 2 * (weights + attention), "unit": "FLOP/token"}))
