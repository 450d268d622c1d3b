/** @file A row's product, and a sequence's samples, have the same bits in any batch, even where several threads divide few columns. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type * as tf from "@tensorflow/tfjs-core";
import { afterAll, expect, test } from "vitest";
import type { CheckpointFiles, Sample, Sampler } from "../../core/ports.ts";
import { stream } from "../../core/random.ts";
import type { ModelConfig } from "../../engine/checkpoint/config.ts";
import { initializeWeights } from "../../engine/checkpoint/initialize.ts";
import { parameterLayout } from "../../engine/checkpoint/parameters.ts";
import { MODEL_FILE } from "../../engine/checkpoint/tensors.ts";
import { writeModel } from "../../engine/checkpoint/weights.ts";
import { openGraphSession, tensor } from "../../engine/compiled/graph-session.ts";
import { rowProduct, samplingThreads } from "../../engine/compiled/graphs/row-product.ts";
import { type LaneOptions, optionsOfLane } from "../../engine/compiled/lanes.ts";
import { openCompiledSampler } from "../../engine/compiled/sampling/sampler.ts";
import { traceGraph } from "../../engine/compiled/trace/trace.ts";
import type { Factor } from "../../engine/model/transformer.ts";
import { LORA, mapped, OPTIONS, tinyAdapter, tinyCheckpoint, WIDE } from "./tiny.ts";

const folder = mkdtempSync(join(tmpdir(), "mgrpo-row-product-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Not a multiple of 128. */
const INNER = 600;
const MAX_ROWS = 400;
const { uniform } = stream("row products");
const random = (length: number) => Float32Array.from({ length }, () => uniform() - 0.5);

// The runtime divides this many columns of a plain product among the threads, so a row's rounding can depend on the number of rows.
test.each<[Factor, number, number]>([
  ["weight", 64, 2],
  ["weight", 144, 2],
  ["weight", 144, 4],
  ["weight", 304, 4],
  ["A", 40, 4],
  ["B", 64, 4],
])(
  "a row of a product with %s of %i columns, on %i threads, has the same bits in any batch",
  async (factor, columns, threads) => {
    const options = { ...OPTIONS, provider: "cpu", threads } as const;
    const product = rowProduct(options);
    const traced = traceGraph("product", (scope) => {
      const [x, w] = [scope.input<tf.Tensor2D>("x", [10007, INNER]), scope.input<tf.Tensor2D>("w", [columns, INNER])];
      scope.output("y", product(x, w, factor));
    });
    const session = await openGraphSession(traced, options);
    const [row, others, weights] = [random(INNER), random(MAX_ROWS * INNER), random(columns * INNER)];
    const w = tensor(weights, [columns, INNER]);
    const products = [];
    for (const rows of [2, 3, 4, 8, 33, 64, 100, 150, 200, MAX_ROWS]) {
      const x = others.slice(0, rows * INNER);
      x.set(row, (rows - 1) * INNER);
      const { y } = await session.run({ batch: rows }, { x: tensor(x, [rows, INNER]), w });
      products.push(y?.slice((rows - 1) * columns));
    }
    expect(products[0]).toHaveLength(columns);
    for (const row_ of products) expect(row_).toEqual(products[0]);
    const expected = weights.subarray(0, INNER).reduce((sum, value, i) => sum + value * (row[i] as number), 0);
    expect(products[0]?.[0]).toBeCloseTo(expected, 4);
  },
);

const MODEL = { ...WIDE, tied: false, width: INNER, heads: 20, kvHeads: 4, headWidth: 32, ffnWidth: 1536 };
const WIDE_HEADS = { ...WIDE, tied: false, width: 512, headWidth: 128 };

test("on the CPU, a sampler has at most one thread per head; without packing, so few that each has more than 64 columns of a product as wide as the model", () => {
  const threadsOf = (changed: Partial<LaneOptions> = {}) =>
    samplingThreads({ ...MODEL, heads: 10, headWidth: 60 }, { ...OPTIONS, provider: "cpu", threads: 16, ...changed });
  expect([threadsOf(), threadsOf({ packsWeights: true }), threadsOf({ threads: 2 })]).toEqual([7, 10, 2]);
  expect(threadsOf({ provider: "cuda" })).toBe(16);
});

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

async function expectSameBits(files: CheckpointFiles, lanes: readonly LaneOptions[]): Promise<void> {
  const [first, ...others] = lanes;
  const alone = await sampleAll(files, first as LaneOptions, false);
  expect(new Set(alone.flat().flatMap(({ logProbs }) => logProbs)).size).toBeGreaterThan(20);
  expect(await sampleAll(files, first as LaneOptions, true)).toEqual(alone);
  for (const options of others)
    for (const together of [false, true]) expect(await sampleAll(files, options, together)).toEqual(alone);
}

const ON_FOUR = { ...OPTIONS, provider: "cpu", threads: 4, slots: 64 } as const;
/** Weights so large that the rounding of a product reaches the log-probs. */
const large = (model: ModelConfig) =>
  [
    MODEL_FILE,
    writeModel(
      parameterLayout(model),
      initializeWeights(model, 1).map((value) => 2 * value),
    ),
  ] as const;

test.each([
  ["all weights", new Map([...tinyCheckpoint(MODEL), large(MODEL)])],
  ["an adapter", new Map([...tinyAdapter(MODEL), large(MODEL)])],
])("without packing, samples of %s have the same bits alone and together", (_name, files) =>
  expectSameBits(files, [ON_FOUR]),
);

test("with more threads than heads, turns after long contexts have the same bits alone and together", () => {
  const files = new Map([...tinyCheckpoint(WIDE_HEADS, 1, 2048), large(WIDE_HEADS)]);
  return expectSameBits(files, [{ ...ON_FOUR, threads: 2 * WIDE_HEADS.heads, contextTokens: 1400 }]);
});

test.each([16, 40, 160])(
  "with packed weights and an adapter of rank %i, samples have the same bits alone and together, on four, two or one threads",
  (rank) => {
    const files = mapped(tinyAdapter(MODEL, { ...LORA, rank, alpha: 0.05 }), join(folder, `rank${rank}`));
    const packed = { ...ON_FOUR, packsWeights: true };
    return expectSameBits(files, [packed, optionsOfLane(packed, 2), optionsOfLane(packed, 4)]);
  },
);
