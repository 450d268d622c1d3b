/**
 * @file engine.lora.*: a model of Qwen3-0.6B's shape with an adapter of rank 16 on every linear layer, in one process: sampling 64 tokens for 4
 * sequences, one training step of 2 x 512 tokens, and the process's peak memory.
 */
import { parameterLayout } from "../engine/checkpoint/parameters.ts";
import { compiledEngine } from "../engine/compiled/engine.ts";
import { print } from "./measurement.ts";
import { requireProc } from "./process-tree.ts";
import { QWEN3_06B } from "./qwen3/model.ts";
import {
  LORA,
  NEW_TOKENS,
  OPTIONS,
  PROMPT_TOKENS,
  SAMPLED_SEQUENCES,
  TRAINED_SEQUENCES,
  timeSampling,
  timeTrainStep,
  watchMemory,
  writeLoraModel,
} from "./qwen3/work.ts";
import { temporaryFolder } from "./temporary-folder.ts";

const MEGABYTE = 1e6;

requireProc("mgrpo bench lora");
const folder = temporaryFolder("bench-lora");
const files = writeLoraModel(folder);
const memory = watchMemory();
const sampler = await compiledEngine.openSampler(files, OPTIONS);
const sampling = await timeSampling(sampler, QWEN3_06B, NEW_TOKENS);
// The sampler stays open, as in a worker. A short step traces the graphs before the measured one.
const trainer = await compiledEngine.openTrainer(files, OPTIONS);
await timeTrainStep(trainer, QWEN3_06B, 2);
const training = await timeTrainStep(trainer, QWEN3_06B, OPTIONS.contextTokens);
const peak = memory.stop();
const model = { model: "Qwen3-0.6B's shape", rank: LORA.rank, threads: OPTIONS.threads, dtype: "fp32" };
print("engine.lora.sample", sampling, "s", {
  ...model,
  sequences: SAMPLED_SEQUENCES,
  prompt: PROMPT_TOKENS,
  newTokens: NEW_TOKENS,
});
print("engine.lora.train", training, "s", { ...model, sequences: TRAINED_SEQUENCES, tokens: OPTIONS.contextTokens });
const timesWeights = Number((peak / (4 * parameterLayout(QWEN3_06B).length)).toFixed(2));
print("engine.lora.memory", Math.round(peak / MEGABYTE), "MB", { ...model, kind: "peak PSS", timesWeights });
