"""The rate of large matrix products alone, and what one token of engine.train's work comes to. Prints two JSON lines."""
import json
import sys
import time

import torch

import model

torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
SIZE, REPEATS, TOKENS = 2048, 15, 256
a, b = torch.randn(SIZE, SIZE), torch.randn(SIZE, SIZE)
a @ b
times = []
for _ in range(REPEATS):
    start = time.perf_counter()
    a @ b
    times.append(time.perf_counter() - start)
rate = 2 * SIZE**3 / sorted(times)[REPEATS // 2]
print(json.dumps({"name": "pytorch.products", "value": rate / 1e9, "unit": "GFLOP/s"}))

# Every weight meets a token in three products: forward, its own gradient, its input's. Attention's two become four in the backward pass,
# and a query sees half of the keys on average: blocks that are computed and hidden do not count.
linear = (2 * model.HEADS + 2 * model.KV_HEADS) * model.HEAD * model.WIDTH + 3 * model.FFN * model.WIDTH
weights = model.LAYERS * linear + model.VOCABULARY * model.WIDTH
attention = model.LAYERS * 2 * model.HEADS * model.HEAD * TOKENS / 2
print(json.dumps({"name": "train.flop", "value": 3 * 2 * (weights + attention), "unit": "FLOP/token"}))
