/**
 * @file engine.train and engine.sample: the compiled engine on one fixed model. bench/pytorch measures the same work in PyTorch.
 * Run as a script, it prints one JSON object per line.
 */
import { pathToFileURL } from "node:url";
import type { ExecutionProvider } from "../core/contracts/engine.ts";
import type { CheckpointFiles, EngineOptions } from "../core/ports.ts";
import { stream } from "../core/random.ts";
import { type ModelConfig, writeModelConfig } from "../engine/checkpoint/config.ts";
import { initializeWeights } from "../engine/checkpoint/initialize.ts";
import { parameterLayout } from "../engine/checkpoint/parameters.ts";
import { MODEL_FILE } from "../engine/checkpoint/tensors.ts";
import { writeModel } from "../engine/checkpoint/weights.ts";
import { compiledEngine } from "../engine/compiled/engine.ts";
import { type Measurement, medianOf, secondsOf } from "./measurement.ts";

const MODEL: ModelConfig = {
  layers: 4,
  width: 192,
  heads: 6,
  kvHeads: 2,
  headWidth: 32,
  ffnWidth: 512,
  vocabulary: 2048,
  ropeTheta: 10000,
  ropeScaling: null,
  epsilon: 1e-6,
  tied: true,
  queryKeyNorm: true,
  projectionBias: false,
};
const MODEL_FIGURES = { layers: 4, width: 192, heads: 6, kvHeads: 2, ffn: 512, vocabulary: 2048, dtype: "fp32" };
const OPTIONS: EngineOptions = { threads: 2, slots: 64, contextTokens: 257, microBatchTokens: 1024 };
const REPEATS = 5;

/** Tokens/s through forward, clipped loss and backward on 16 x 256 tokens: the median of several passes. */
export async function engineTrain(repeats = REPEATS, provider: ExecutionProvider = "cpu"): Promise<Measurement> {
  const [sequences, tokens] = [16, 256];
  const trainer = await compiledEngine.openTrainer(checkpoint(), { ...OPTIONS, provider });
  const batch = Array.from({ length: sequences }, (_, i) => ({
    tokens: randomTokens(i, tokens),
    weights_T: new Float32Array(tokens).fill(1 / (sequences * tokens)),
    advantages_T: Float32Array.from({ length: tokens }, (_x, t) => (t % 2 ? 1 : -1)),
    behaviorLogProbs_T: new Float32Array(tokens).fill(-Math.log(MODEL.vocabulary)),
  }));
  const loss = { kind: "clipped-token", clipLow: 0.2, clipHigh: 0.28 } as const;
  const seconds = await medianOf(repeats, () => secondsOf(() => trainer.forwardBackward(batch, loss, 1)));
  await trainer.close();
  const config = {
    ...MODEL_FIGURES,
    threads: OPTIONS.threads,
    sequences,
    tokens,
    microBatchTokens: OPTIONS.microBatchTokens,
  };
  return { name: "engine.train", value: Math.round((sequences * tokens) / seconds), unit: "tokens/s", config };
}

/** Generated tokens/s: 64 sequences, prompt 128, 128 new tokens, temperature 1; prefill included. */
export async function engineSample(repeats = REPEATS, provider: ExecutionProvider = "cpu"): Promise<Measurement> {
  const [sequences, prompt, newTokens] = [64, 128, 128];
  const sampler = await compiledEngine.openSampler(checkpoint(), { ...OPTIONS, provider });
  const round = (number: number) =>
    Promise.all(
      Array.from({ length: sequences }, async (_, i) => {
        const sequence = `${number}/${i}`;
        await sampler.sample({
          sequence,
          tokens: randomTokens(i, prompt),
          maxTokens: newTokens,
          stop: [],
          sampling: { temperature: 1, topP: 1, topK: 0 },
          stream: ["bench", number, i],
        });
        sampler.release(sequence);
      }),
    );
  const seconds = await medianOf(repeats, (number) => secondsOf(() => round(number)));
  await sampler.close();
  const config = { ...MODEL_FIGURES, threads: OPTIONS.threads, sequences, prompt, newTokens, temperature: 1 };
  return { name: "engine.sample", value: Math.round((sequences * newTokens) / seconds), unit: "tokens/s", config };
}

function checkpoint(): CheckpointFiles {
  const weights = initializeWeights(MODEL, 1);
  return new Map([
    ["config.json", new TextEncoder().encode(writeModelConfig(MODEL, OPTIONS.contextTokens))],
    [MODEL_FILE, writeModel(parameterLayout(MODEL), weights)],
  ]);
}

function randomTokens(seed: number, count: number): number[] {
  const { integer } = stream("bench", "tokens", seed);
  return Array.from({ length: count }, () => integer(MODEL.vocabulary));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  console.log(JSON.stringify(await engineTrain()));
  console.log(JSON.stringify(await engineSample()));
}
