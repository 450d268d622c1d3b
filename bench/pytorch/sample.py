"""engine.sample in PyTorch: 64 sequences, prompt 128, 128 new tokens, temperature 1, with a preallocated cache. Prints one JSON line."""
import json
import sys
import time

import torch
import torch.nn.functional as F

import model

torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
B, PROMPT, NEW, REPEATS = 64, 128, 128, 5
p = model.parameters()
cos, sin = model.angles(torch.arange(PROMPT + NEW))


@torch.inference_mode()
def sample(prompt):
    shape = (B, model.KV_HEADS, PROMPT + NEW, model.HEAD)
    keys = [torch.zeros(shape) for _ in range(model.LAYERS)]
    values = [torch.zeros(shape) for _ in range(model.LAYERS)]
    at = 0

    def attend(i, q, k, v):
        end = at + q.shape[2]
        keys[i][:, :, at:end] = k
        values[i][:, :, at:end] = v
        if q.shape[2] > 1:
            return model.causal(i, q, k, v)
        # One query per head: the query heads of a group are rows of one product.
        rows = q.view(B, model.KV_HEADS, -1, model.HEAD)
        scores = (rows @ keys[i][:, :, :end].transpose(-1, -2)) * model.HEAD**-0.5
        return (scores.softmax(-1) @ values[i][:, :, :end]).view(B, model.HEADS, 1, model.HEAD)

    tokens, out = prompt, []
    for _ in range(NEW):
        end = at + tokens.shape[1]
        h = model.hidden(p, tokens, cos[at:end], sin[at:end], attend)[:, -1]
        at = end
        log_probs = F.linear(h, p["embedding"]).log_softmax(-1)
        tokens = torch.multinomial(log_probs.exp(), 1)
        out.append((tokens, log_probs.gather(-1, tokens)))
    return out


prompt = torch.randint(model.VOCABULARY, (B, PROMPT))
sample(prompt)
times = []
for _ in range(REPEATS):
    start = time.perf_counter()
    sample(prompt)
    times.append(time.perf_counter() - start)
seconds = sorted(times)[REPEATS // 2]
print(json.dumps({"name": "pytorch.sample", "value": round(B * NEW / seconds), "unit": "tokens/s", "torch": torch.__version__}))
