"""Opens a checkpoint with Hugging Face transformers. Prints the log-prob of each token of the rendered question (0 for the first) and the five most
probable next tokens. Fails if this program's tokens differ, or if one of its log-probs differs by more than 1e-4.

    python bench/pytorch/open.py runs/<run>/checkpoints/main "What is the capital of Peru?"     (needs torch and transformers >= 5)
"""
import json
import os
import subprocess
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TOLERANCE = 1e-4

if len(sys.argv) not in (2, 3):
    sys.exit(__doc__)
folder = os.path.abspath(sys.argv[1])
question = sys.argv[2] if len(sys.argv) == 3 else "What is the capital of Peru?"

tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
asked = tokenizer.apply_chat_template([{"role": "user", "content": question}], add_generation_prompt=True, tokenize=False)
tokens = tokenizer(asked, add_special_tokens=False)["input_ids"]
with torch.no_grad():
    rows = model(torch.tensor([tokens])).logits[0].log_softmax(-1)
log_probs = [0.0] + [rows[t - 1, token].item() for t, token in enumerate(tokens) if t > 0]
for token, log_prob in zip(tokens, log_probs):
    print(json.dumps({"token": tokenizer.decode([token]), "logProb": round(log_prob, 5)}))
best = rows[-1].topk(5)
print(json.dumps({"next": [[tokenizer.decode([i]), round(v, 5)] for v, i in zip(best.values.tolist(), best.indices.tolist())]}))

command = ["node", "--import", "tsx", os.path.join(HERE, "log-probs.ts"), folder, question]
ours = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
if ours["tokens"] != tokens:
    sys.exit(f"transformers encodes the question as {tokens}, this program as {ours['tokens']}")
farthest = max(abs(a - b) for a, b in zip(ours["logProbs"], log_probs))
print(json.dumps({"tokens": len(tokens), "farthest": farthest}))
if farthest > TOLERANCE:
    sys.exit(f"log-probs differ by {farthest}, more than {TOLERANCE}")
