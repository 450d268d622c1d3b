"""The counterpart of step.ts: one GRPO step with TRL's GRPOTrainer and a PEFT adapter on the same cores; transformers' generate samples the rollouts.
A lap (laps.ts) is a step: a line on stdin starts it, a line of JSON on stdout ends it.

    python trl_step.py <work.json> <model folder>          (needs requirements.txt)

TRL's defaults are kept, except for what the CPU or the comparison requires:
  1. float32 (`bf16` is on by default), on the CPU.
  2. No gradient checkpointing: it saves memory and costs a second forward pass.
  3. Micro-batches of K sequences in training, since all 64 of the full size do not fit into 24 GB. All rollouts of a step are sampled together.
  4. Every rollout has exactly the same number of new tokens.
  5. The optimizer's settings, the clip range and the adapter are those of step.ts; the learning rate is constant.
  6. Questions keep their order.
  7. No checkpoints, progress bar or reports.
"""
import json
import os
import sys
import tempfile
import time

# Answers have the real stdout to themselves: whatever a library prints goes to stderr.
answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)

with open(sys.argv[1]) as file:
    work = json.load(file)
# Before torch is imported, for every library that has threads of its own.
os.environ.update(OMP_NUM_THREADS=str(work["threads"]), TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1")

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

torch.set_num_threads(work["threads"])
K, QUESTIONS = work["rollouts"], len(work["prompts"])
sampled = {"seconds": 0.0, "tokens": 0}


def reward(completion_ids, **_):
    """The share of even numbers among the token ids, as in work.ts. Also counts the sampled tokens."""
    sampled["tokens"] += sum(len(ids) for ids in completion_ids)
    return [sum(token % 2 == 0 for token in ids) / len(ids) for ids in completion_ids]


class Laps(TrainerCallback):
    """A step begins before its rollouts are sampled and ends after the optimizer's update; its log follows."""

    def on_step_begin(self, args, state, control, **_):
        if not sys.stdin.readline():
            sys.exit()
        sampled.update(seconds=0.0, tokens=0)
        self.start = time.perf_counter()

    def on_step_end(self, args, state, control, **_):
        self.seconds = time.perf_counter() - self.start

    def on_log(self, args, state, control, logs, **_):
        if "entropy" not in logs:
            return
        figures = {"seconds": self.seconds, "samplingSeconds": sampled["seconds"], "sampledTokens": sampled["tokens"]}
        print(json.dumps({**figures, "entropy": float(logs["entropy"])}), file=answers)


def timed(generate):
    def call(*args, **kwargs):
        start = time.perf_counter()
        output = generate(*args, **kwargs)
        sampled["seconds"] += time.perf_counter() - start
        return output

    return call


model_folder, lora, optimizer = sys.argv[2], work["lora"], work["optimizer"]
tokenizer = AutoTokenizer.from_pretrained(model_folder, padding_side="left")
for prompt in work["prompts"]:
    if tokenizer(prompt["text"])["input_ids"] != prompt["tokens"]:
        sys.exit(f"the tokenizer of {model_folder} splits a prompt into tokens that differ from those in work.json: use SmolLM2's")
# Removed when the process exits.
output = tempfile.TemporaryDirectory(prefix="mgrpo-bench-peers-")
config = GRPOConfig(
    output_dir=output.name,
    use_cpu=True,
    bf16=False,
    gradient_checkpointing=False,
    seed=work["seed"],
    # One step more than there are laps: the process waits at the start of that step, so that its memory can still be read.
    max_steps=work["rounds"] + 2,
    per_device_train_batch_size=K,
    gradient_accumulation_steps=QUESTIONS,
    num_generations=K,
    max_completion_length=work["newTokens"],
    generation_kwargs={"min_new_tokens": work["newTokens"]},
    shuffle_dataset=False,
    epsilon=work["clip"]["low"],
    epsilon_high=work["clip"]["high"],
    learning_rate=optimizer["learningRate"],
    lr_scheduler_type="constant",
    adam_beta1=optimizer["beta1"],
    adam_beta2=optimizer["beta2"],
    adam_epsilon=optimizer["epsilon"],
    weight_decay=optimizer["weightDecay"],
    max_grad_norm=optimizer["maxGradientNorm"],
    logging_steps=1,
    save_strategy="no",
    report_to="none",
    disable_tqdm=True,
)
trainer = GRPOTrainer(
    model=AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32),
    reward_funcs=reward,
    args=config,
    train_dataset=Dataset.from_dict({"prompt": [prompt["text"] for prompt in work["prompts"]]}),
    processing_class=tokenizer,
    callbacks=[Laps()],
    peft_config=LoraConfig(r=lora["rank"], lora_alpha=lora["alpha"], target_modules=lora["targets"], lora_dropout=0.0, task_type="CAUSAL_LM"),
)
trainer.remove_callback(PrinterCallback)
trainer.model.generate = timed(trainer.model.generate)
trainer.train()
