/** @file Samples of several sequences, alone and together, whose bits must be the same. */
import { expect } from "vitest";
import type { CheckpointFiles, Sample, Sampler } from "../../core/ports.ts";
import type { ModelConfig } from "../../engine/checkpoint/config.ts";
import { initializeWeights } from "../../engine/checkpoint/initialize.ts";
import { parameterLayout } from "../../engine/checkpoint/parameters.ts";
import { MODEL_FILE } from "../../engine/checkpoint/tensors.ts";
import { writeModel } from "../../engine/checkpoint/weights.ts";
import type { LaneOptions } from "../../engine/compiled/lanes.ts";
import { openCompiledSampler } from "../../engine/compiled/sampling/sampler.ts";
import { OPTIONS, WIDE } from "./tiny.ts";

/** Its width is not a multiple of 128. */
export const MODEL = { ...WIDE, tied: false, width: 600, heads: 20, kvHeads: 4, headWidth: 32, ffnWidth: 1536 };

const AT_5 = { temperature: 5, topP: 1, topK: 0 };
const tokensOf = (i: number, length: number) => Array.from({ length }, (_, t) => (1 + 7 * t + i) % 37);

/** The samples of a sequence's turns. Before each turn but the first, the sequence gets 24 more tokens. */
async function sampleTurns(sampler: Sampler, i: number, length: number, turns: number): Promise<Sample[]> {
  const samples: Sample[] = [];
  let tokens = tokensOf(i, length);
  for (let turn = 0; turn < turns; turn++) {
    const request = { sequence: `${i}`, tokens, maxTokens: 4, stop: [], sampling: AT_5 };
    const sample = await sampler.sample({ ...request, stream: ["rows", i, turn] });
    samples.push(sample);
    tokens = [...tokens, ...sample.tokens, ...tokensOf(i + 1, 24)];
  }
  return samples;
}

/** The samples of several sequences, from a sampler of their own: one that had sampled them before would reuse cached distributions. */
async function sampleAll(files: CheckpointFiles, options: LaneOptions, together: boolean): Promise<Sample[][]> {
  const sampler = await openCompiledSampler(files, options);
  const isLong = options.contextTokens > 1000;
  const { sequences, first, turns } = isLong
    ? { sequences: 4, first: 900, turns: 2 }
    : { sequences: 12, first: 1, turns: 1 };
  const answered: Promise<Sample[]>[] = [];
  for (let i = 0; i < sequences; i++) {
    answered.push(sampleTurns(sampler, i, first + i * i, turns));
    if (!together) await answered[i];
  }
  const samples = await Promise.all(answered);
  await sampler.close();
  return samples;
}

export async function expectSameBits(files: CheckpointFiles, lanes: readonly LaneOptions[]): Promise<void> {
  const [first, ...others] = lanes;
  const alone = await sampleAll(files, first as LaneOptions, false);
  expect(new Set(alone.flat().flatMap(({ logProbs }) => logProbs)).size).toBeGreaterThan(20);
  expect(await sampleAll(files, first as LaneOptions, true)).toEqual(alone);
  for (const options of others)
    for (const together of [false, true]) expect(await sampleAll(files, options, together)).toEqual(alone);
}

export const ON_FOUR = { ...OPTIONS, provider: "cpu", threads: 4, slots: 64 } as const;
/** Weights so large that the rounding of a product reaches the log-probs. */
export const large = (model: ModelConfig) =>
  [
    MODEL_FILE,
    writeModel(
      parameterLayout(model),
      initializeWeights(model, 1).map((value) => 2 * value),
    ),
  ] as const;
