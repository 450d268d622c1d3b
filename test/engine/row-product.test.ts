/** @file A row's product, and a sequence's samples, have the same bits in any batch, even where several threads divide few columns. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type * as tf from "@tensorflow/tfjs-core";
import { afterAll, expect, test } from "vitest";
import { stream } from "../../core/random.ts";
import { openGraphSession, tensor } from "../../engine/compiled/graph-session.ts";
import { rowProduct, samplingThreads } from "../../engine/compiled/graphs/row-product.ts";
import { type LaneOptions, optionsOfLane } from "../../engine/compiled/lanes.ts";
import { traceGraph } from "../../engine/compiled/trace/trace.ts";
import type { Factor } from "../../engine/model/transformer.ts";
import { expectSameBits, large, MODEL, ON_FOUR } from "./same-bits.ts";
import { LORA, mapped, OPTIONS, tinyAdapter, tinyCheckpoint } from "./tiny.ts";

const folder = mkdtempSync(join(tmpdir(), "mgrpo-row-product-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const INNER = MODEL.width;
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

test("on the CPU, a sampler has at most one thread per head; without packing, so few that each has more than 64 columns of a product as wide as the model", () => {
  const threadsOf = (changed: Partial<LaneOptions> = {}) =>
    samplingThreads({ ...MODEL, heads: 10, headWidth: 60 }, { ...OPTIONS, provider: "cpu", threads: 16, ...changed });
  expect([threadsOf(), threadsOf({ packsWeights: true }), threadsOf({ threads: 2 })]).toEqual([7, 10, 2]);
  expect(threadsOf({ provider: "cuda" })).toBe(16);
});

test.each([
  ["all weights", new Map([...tinyCheckpoint(MODEL), large(MODEL)])],
  ["an adapter", new Map([...tinyAdapter(MODEL), large(MODEL)])],
])("without packing, samples of %s have the same bits alone and together", (_name, files) =>
  expectSameBits(files, [ON_FOUR]),
);

test.each([40])(
  "with packed weights and an adapter of rank %i, samples have the same bits alone and together, on four, two or one threads",
  (rank) => {
    const files = mapped(tinyAdapter(MODEL, { ...LORA, rank, alpha: 0.05 }), join(folder, `rank${rank}`));
    const packed = { ...ON_FOUR, packsWeights: true };
    return expectSameBits(files, [packed, optionsOfLane(packed, 2), optionsOfLane(packed, 4)]);
  },
);
