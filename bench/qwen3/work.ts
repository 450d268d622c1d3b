/**
 * @file What a worker does with a model, in one process: sampling and training. Memory is PSS: a page that is mapped twice counts once, and
 * resident file pages count although the system could drop them.
 */
import { readFileSync } from "node:fs";
import { LoraConfig } from "../../core/contracts/lora.ts";
import type { CheckpointFiles, EngineOptions, Sampler, Trainer } from "../../core/ports.ts";
import { stream } from "../../core/random.ts";
import {
  ADAPTER_CONFIG_FILE,
  ADAPTER_FILE,
  initializeAdapter,
  writeAdapterConfig,
} from "../../engine/checkpoint/adapter.ts";
import type { ModelConfig } from "../../engine/checkpoint/config.ts";
import { writeModel } from "../../engine/checkpoint/weights.ts";
import { QWEN3_06B, writeRandomModel } from "./model.ts";

export const OPTIONS: EngineOptions = { threads: 2, slots: 4, contextTokens: 512, microBatchTokens: 1024 };
export const PROMPT_TOKENS = 64;
export const SAMPLED_SEQUENCES = 4;
export const TRAINED_SEQUENCES = 2;
export const NEW_TOKENS = 64;
export const LORA = LoraConfig.parse({});
const ADAM = { learningRate: 1e-4, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0, maxGradientNorm: 1 };
const EVERY_MILLISECONDS = 100;

/** Seconds for `newTokens` of each sequence, prefill included. */
export async function timeSampling(sampler: Sampler, { vocabulary }: ModelConfig, newTokens: number): Promise<number> {
  const start = performance.now();
  await Promise.all(
    Array.from({ length: SAMPLED_SEQUENCES }, (_, i) =>
      sampler.sample({
        sequence: String(i),
        tokens: randomTokens(i, PROMPT_TOKENS, vocabulary),
        maxTokens: newTokens,
        stop: [],
        sampling: { temperature: 1, topP: 1, topK: 0 },
        stream: ["bench", i],
      }),
    ),
  );
  return (performance.now() - start) / 1000;
}

/** Seconds of forward, backward and update on sequences of `tokens`. */
export async function timeTrainStep(trainer: Trainer, { vocabulary }: ModelConfig, tokens: number): Promise<number> {
  const batch = Array.from({ length: TRAINED_SEQUENCES }, (_, i) => ({
    tokens: randomTokens(i, tokens, vocabulary),
    weights_T: new Float32Array(tokens).fill(1 / (TRAINED_SEQUENCES * tokens)),
    advantages_T: Float32Array.from({ length: tokens }, (_x, t) => (t % 2 ? 1 : -1)),
    behaviorLogProbs_T: new Float32Array(tokens).fill(-Math.log(vocabulary)),
  }));
  const start = performance.now();
  await trainer.forwardBackward(batch, { kind: "clipped-token", clipLow: 0.2, clipHigh: 0.28 }, 1);
  await trainer.optimizerStep(ADAM);
  return (performance.now() - start) / 1000;
}

/** Writes a model of Qwen3-0.6B's shape, 2.4 GB, to a folder. Returns it with a new adapter, which is in memory. */
export function writeLoraModel(folder: string): CheckpointFiles {
  const base = writeRandomModel(folder, QWEN3_06B, OPTIONS.contextTokens, "F32");
  return withFreshAdapter(base, QWEN3_06B, LORA);
}

export function withFreshAdapter(base: CheckpointFiles, config: ModelConfig, lora: LoraConfig): CheckpointFiles {
  const { layout, weights } = initializeAdapter(config, lora, ["bench"]);
  return new Map([
    ...base,
    [ADAPTER_CONFIG_FILE, new TextEncoder().encode(writeAdapterConfig(lora, "models/random"))],
    [ADAPTER_FILE, writeModel(layout, weights)],
  ]);
}

function randomTokens(seed: number, count: number, vocabulary: number): number[] {
  const { integer } = stream("bench", "tokens", seed);
  return Array.from({ length: count }, () => integer(vocabulary));
}

/** Samples the PSS of this process while the engine's threads compute. `stop` returns the peak in bytes. */
export function watchMemory(): { stop(): number } {
  let peak = 0;
  const look = () => {
    const [, kilobytes = "0"] = /^Pss:\s+(\d+) kB/m.exec(readFileSync("/proc/self/smaps_rollup", "utf8")) ?? [];
    peak = Math.max(peak, 1024 * Number(kilobytes));
  };
  const timer = setInterval(look, EVERY_MILLISECONDS);
  return {
    stop() {
      clearInterval(timer);
      look();
      return peak;
    },
  };
}
