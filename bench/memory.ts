/**
 * @file engine.memory: the measured memory of workers compared with the prediction of `mgrpo doctor --model` or, for a team, of `mgrpo train`. Each
 * worker is a process that samples, trains one step, saves, and opens the next version while the previous one is still open. The model has 4 of
 * Qwen3-0.6B's 28 layers and a third of its vocabulary, so that full training fits into 8 GB. The figure is measured / predicted; in both, a page
 * that two workers map counts once.
 */
import { execFileSync, spawn } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { builtModule } from "../built-module.ts";
import { LoraConfig } from "../core/contracts/lora.ts";
import type { CheckpointFile, CheckpointFiles, EngineOptions } from "../core/ports.ts";
import type { WrittenType } from "../engine/checkpoint/safetensors.ts";
import { MODEL_FILE } from "../engine/checkpoint/tensors.ts";
import { compiledEngine } from "../engine/compiled/engine.ts";
import { mappedBytes, planMemory, totalBytes, totalOfProcesses } from "../engine/compiled/memory.ts";
import { mappedFiles, storedWeights } from "../engine/compiled/open-weights.ts";
import { resolveGradientCheckpointing } from "../engine/compiled/spare-memory.ts";
import { isOptimizer } from "../gpu-workers/checkpoints.ts";
import { print } from "./measurement.ts";
import { peakOf, requireProc } from "./process-tree.ts";
import { QWEN3_06B, writeRandomModel } from "./qwen3/model.ts";
import { OPTIONS, timeSampling, timeTrainStep, withFreshAdapter } from "./qwen3/work.ts";
import { temporaryFolder } from "./temporary-folder.ts";

interface Case {
  readonly trained: "adapter" | "all weights";
  readonly dtype: WrittenType;
  /** Workers on the same base. */
  readonly workers: number;
}

const CASES: Readonly<Record<string, Case>> = {
  "lora-fp32": { trained: "adapter", dtype: "F32", workers: 1 },
  "lora-bf16": { trained: "adapter", dtype: "BF16", workers: 1 },
  "full-fp32": { trained: "all weights", dtype: "F32", workers: 1 },
  "lora-two-workers": { trained: "adapter", dtype: "F32", workers: 2 },
};
const MODEL = { ...QWEN3_06B, layers: 4, vocabulary: 50_000 };
const NEW_TOKENS = 4;
/** The sequences of a training step share no prefix. `planOf` does not resolve `weightPacking`, so packed copies would be missing from the plan. */
const ENGINE: EngineOptions = { ...OPTIONS, prefixTrees: false, weightPacking: "off" };
const MEGABYTE = 1e6;
const EVERY_MILLISECONDS = 100;

const script = fileURLToPath(builtModule("bench/memory"));
const [, , only, folder] = process.argv;
if (only === undefined) {
  for (const name of Object.keys(CASES)) execFileSync(process.execPath, [script, name], { stdio: "inherit" });
} else if (folder === undefined) await measure(only);
else await work(only, folder);

async function measure(name: string): Promise<void> {
  requireProc("mgrpo bench memory");
  const { trained, dtype, workers } = caseOf(name);
  const folder = temporaryFolder("bench-memory");
  const files = writeRandomModel(folder, MODEL, OPTIONS.contextTokens, dtype);
  const worker = () => spawn(process.execPath, [script, name, folder], { stdio: ["ignore", "inherit", "inherit"] });
  const peak = await peakOf(Array.from({ length: workers }, worker), EVERY_MILLISECONDS);
  const { plan, mapped } = planOf(name, files);
  const predicted = totalOfProcesses(Array.from({ length: workers }, () => ({ plan, mapped })));
  const parts = { peakPss: peak.bytes, predicted, worker: totalBytes(plan), mapped: mapped.bytes, ...plan };
  const megabytes = Object.fromEntries(
    Object.entries(parts).map(([part, bytes]) => [part, Math.round(bytes / MEGABYTE)]),
  );
  print("engine.memory", peak.bytes / predicted, "measured / predicted", {
    case: name,
    trained,
    dtype,
    workers,
    megabytes,
  });
}

function caseOf(name: string): Case {
  const found = CASES[name];
  if (!found) throw new RangeError(`unknown case '${name}': use one of ${Object.keys(CASES).join(", ")}`);
  return found;
}

function loraOf({ trained }: Case): LoraConfig | null {
  return trained === "adapter" ? LoraConfig.parse({}) : null;
}

function planOf(name: string, files: CheckpointFiles) {
  const lora = loraOf(caseOf(name));
  const stored = storedWeights(files, MODEL);
  const gradientCheckpointing = resolveGradientCheckpointing(MODEL, lora, ENGINE, stored);
  const options = { ...ENGINE, gradientCheckpointing };
  const mapped = { files: mappedFiles(files, MODEL), bytes: mappedBytes(MODEL, lora, options, stored) };
  return { options, plan: planMemory(MODEL, lora, options, stored), mapped };
}

/** What a worker does with the model in a folder. */
async function work(name: string, folder: string): Promise<void> {
  const lora = loraOf(caseOf(name));
  const path = join(folder, MODEL_FILE);
  const base = new Map<string, CheckpointFile>([
    ["config.json", readFileSync(join(folder, "config.json"))],
    [MODEL_FILE, { path, bytes: statSync(path).size }],
  ]);
  const files = lora ? withFreshAdapter(base, MODEL, lora) : base;
  const { options } = planOf(name, base);
  const sampler = await compiledEngine.openSampler(files, options);
  await timeSampling(sampler, MODEL, NEW_TOKENS);
  const trainer = await compiledEngine.openTrainer(files, options);
  await timeTrainStep(trainer, MODEL, OPTIONS.contextTokens);
  const saved = [...(await trainer.save())].filter(([file]) => !isOptimizer(file));
  const next = await compiledEngine.openSampler(new Map([...files, ...saved]), options);
  await timeSampling(next, MODEL, NEW_TOKENS);
}
