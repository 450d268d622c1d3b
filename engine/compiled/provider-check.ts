/**
 * @file Compares a provider with the CPU on a tiny model: log-probs, gradient and samples. A faulty driver or operator would otherwise
 * train a model on noise without an error.
 */
import type { ExecutionProvider, Precision } from "../../core/contracts/engine.ts";
import type { TrainingSequence } from "../../core/ports.ts";
import { type ModelConfig, writeModelConfig } from "../checkpoint/config.ts";
import { initializeWeights } from "../checkpoint/initialize.ts";
import { parameterLayout } from "../checkpoint/parameters.ts";
import { MODEL_FILE } from "../checkpoint/tensors.ts";
import { writeModel } from "../checkpoint/weights.ts";
import { openCompiledSampler } from "./sampling/sampler.ts";
import { openLaneTrainer } from "./training/lane-trainer.ts";

const MODEL: ModelConfig = {
  layers: 2,
  width: 16,
  heads: 4,
  kvHeads: 2,
  headWidth: 8,
  ffnWidth: 24,
  vocabulary: 40,
  ropeTheta: 10000,
  ropeScaling: null,
  epsilon: 1e-6,
  tied: true,
  queryKeyNorm: true,
  projectionBias: false,
};
export const TINY_OPTIONS = { threads: 1, slots: 2, contextTokens: 32, microBatchTokens: 64 };

const LOSS = { kind: "clipped-token", clipLow: 0.2, clipHigh: 0.28 } as const;
const TEMPERATURE = 0.9;
const SAMPLING = { temperature: TEMPERATURE, topP: 1, topK: 0 };
const PROMPT = [3, 1, 4, 1, 5];
const BATCH: readonly TrainingSequence[] = [
  [3, 1, 4, 1, 5, 9, 2, 6],
  [5, 35, 8],
].map((tokens) => ({
  tokens,
  weights_T: Float32Array.from(tokens, (_, t) => 0.1 * t),
  advantages_T: Float32Array.from(tokens, (_, t) => (t % 2 ? 1.5 : -0.7)),
  behaviorLogProbs_T: Float32Array.from(tokens, (_, t) => -3.5 - 0.2 * t),
}));

export function tinyModel(): Map<string, Uint8Array> {
  const config = new TextEncoder().encode(writeModelConfig(MODEL, TINY_OPTIONS.contextTokens));
  return new Map([
    ["config.json", config],
    [MODEL_FILE, writeModel(parameterLayout(MODEL), initializeWeights(MODEL, 1))],
  ]);
}

/** The largest ||provider - CPU|| / ||CPU|| over log-probs, gradient and sampled log-probs. For bf16, the CPU rounds products and their inputs. */
export async function deviationFromCpu(provider: ExecutionProvider, precision: Precision): Promise<number> {
  const files = tinyModel();
  const onProvider = openLaneTrainer(files, { ...TINY_OPTIONS, precision, provider });
  const onCpu = openLaneTrainer(files, { ...TINY_OPTIONS, precision, provider: "cpu" });
  const sampler = await openCompiledSampler(files, { ...TINY_OPTIONS, precision, provider });
  try {
    const [actual, expected] = [await trainingPass(onProvider), await trainingPass(onCpu)];
    const sample = await sampler.sample({
      sequence: "check",
      tokens: PROMPT,
      maxTokens: 8,
      stop: [],
      sampling: SAMPLING,
      stream: ["proof"],
    });
    const [scored] = await onCpu.logProbs([[...PROMPT, ...sample.tokens]], TEMPERATURE);
    return Math.max(
      ...actual.map((numbers, i) => deviation(numbers, expected[i] ?? new Float32Array())),
      deviation(Float32Array.from(sample.logProbs), (scored ?? new Float32Array()).subarray(PROMPT.length)),
    );
  } finally {
    await Promise.all([onProvider.close(), onCpu.close(), sampler.close()]);
  }
}

async function trainingPass(trainer: ReturnType<typeof openLaneTrainer>): Promise<Float32Array[]> {
  const { logProbs } = await trainer.forwardBackward(BATCH, LOSS, TEMPERATURE);
  return [Float32Array.from(logProbs.flatMap((row) => [...row.subarray(1)])), await trainer.takeGradient()];
}

function deviation(actual: Float32Array, expected: Float32Array): number {
  const norm = (numbers: Float32Array) => Math.sqrt(numbers.reduce((sum, value) => sum + value * value, 0));
  const relative = norm(expected.map((value, i) => value - (actual[i] ?? 0))) / norm(expected);
  // `NaN > limit` is false, so NaN would pass the check.
  return Number.isNaN(relative) ? Number.POSITIVE_INFINITY : relative;
}
