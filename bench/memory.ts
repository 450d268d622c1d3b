/**
 * @file engine.memory: the measured memory of a worker compared with the prediction of `mgrpo doctor --model`. Each case runs in its own process:
 * it samples, trains one step, saves, and opens the next version while the previous one is still open. The model has 4 of Qwen3-0.6B's 28
 * layers and a third of its vocabulary, so that full training fits into 8 GB. The figure is measured / predicted.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { builtModule } from "../built-module.ts";
import { LoraConfig } from "../core/contracts/lora.ts";
import { parameterLayout } from "../engine/checkpoint/parameters.ts";
import type { WrittenType } from "../engine/checkpoint/safetensors.ts";
import { compiledEngine } from "../engine/compiled/engine.ts";
import { planMemory, totalBytes } from "../engine/compiled/memory.ts";
import { isOptimizer } from "../gpu-workers/checkpoints.ts";
import { print } from "./measurement.ts";
import { QWEN3_06B, writeRandomModel } from "./qwen3/model.ts";
import { OPTIONS, sample, timeTrainStep, watchMemory, withFreshAdapter } from "./qwen3/work.ts";

interface Case {
  readonly trained: "adapter" | "all weights";
  readonly dtype: WrittenType;
}

const CASES: Readonly<Record<string, Case>> = {
  "lora-fp32": { trained: "adapter", dtype: "F32" },
  "lora-bf16": { trained: "adapter", dtype: "BF16" },
  "full-fp32": { trained: "all weights", dtype: "F32" },
};
const MODEL = { ...QWEN3_06B, layers: 4, vocabulary: 50_000 };
const NEW_TOKENS = 4;
/** The sequences of a training step share no prefix. */
const ENGINE = { ...OPTIONS, prefixTrees: false };
const MEGABYTE = 1e6;

const [, , only] = process.argv;
if (only === undefined) {
  const script = fileURLToPath(builtModule("bench/memory"));
  for (const name of Object.keys(CASES)) execFileSync(process.execPath, [script, name], { stdio: "inherit" });
} else await measure(only);

async function measure(name: string): Promise<void> {
  const given = CASES[name];
  if (!given) throw new RangeError(`unknown case '${name}': use one of ${Object.keys(CASES).join(", ")}`);
  const { trained, dtype } = given;
  const lora = trained === "adapter" ? LoraConfig.parse({}) : null;
  const folder = mkdtempSync(join(tmpdir(), "mgrpo-bench-memory-"));
  try {
    const base = writeRandomModel(folder, MODEL, OPTIONS.contextTokens, dtype);
    const files = lora ? withFreshAdapter(base, MODEL, lora) : base;
    const memory = watchMemory();
    const sampler = await compiledEngine.openSampler(files, ENGINE);
    const sampling = await sample(sampler, MODEL, NEW_TOKENS);
    const trainer = await compiledEngine.openTrainer(files, ENGINE);
    const training = await timeTrainStep(trainer, MODEL, OPTIONS.contextTokens);
    const saved = [...(await trainer.save())].filter(([name]) => !isOptimizer(name));
    const next = await compiledEngine.openSampler(new Map([...files, ...saved]), ENGINE);
    await sample(next, MODEL, NEW_TOKENS);
    const peak = memory.stop();
    const stored = { mapped: true, bytes: (dtype === "F32" ? 4 : 2) * parameterLayout(MODEL).length };
    const plan = planMemory(MODEL, lora, ENGINE, stored);
    const megabytes = Object.fromEntries(
      Object.entries(plan).map(([part, bytes]) => [part, Math.round(bytes / MEGABYTE)]),
    );
    const measured = { peakPss: Math.round(peak / MEGABYTE), predicted: Math.round(totalBytes(plan) / MEGABYTE) };
    const seconds = { sampling: Math.round(sampling), training: Math.round(training) };
    const details = { case: name, trained, dtype, megabytes: { ...measured, ...megabytes }, seconds };
    print("engine.memory", peak / totalBytes(plan), "measured / predicted", details);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
