"""engine.train in PyTorch: forward, clipped-ratio loss and backward on 16 x 256 tokens. Prints one JSON line."""
import json
import sys
import time

import torch
import torch.nn.functional as F

import model

torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
B, T, REPEATS = 16, 256, 5
p = model.parameters()
ids = torch.randint(model.VOCABULARY, (B, T))
advantages = torch.where(torch.arange(T - 1) % 2 == 0, 1.0, -1.0).expand(B, -1).reshape(-1)
behavior = torch.full((B * (T - 1),), -torch.log(torch.tensor(float(model.VOCABULARY))).item())
cos, sin = model.angles(torch.arange(T - 1))


def step():
    for w in model.tensors(p):
        w.grad = None
    h = model.hidden(p, ids[:, :-1], cos, sin, model.causal).reshape(-1, model.WIDTH)
    logits = F.linear(h, p["embedding"])
    log_probs = -F.cross_entropy(logits, ids[:, 1:].reshape(-1), reduction="none")
    ratio = torch.exp(log_probs - behavior)
    loss = -torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.28) * advantages).sum() / (B * T)
    loss.backward()


step()
times = []
for _ in range(REPEATS):
    start = time.perf_counter()
    step()
    times.append(time.perf_counter() - start)
seconds = sorted(times)[REPEATS // 2]
print(json.dumps({"name": "pytorch.train", "value": round(B * T / seconds), "unit": "tokens/s", "torch": torch.__version__}))
