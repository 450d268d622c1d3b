/** @file Micro-batches: nothing lost, nothing over the limit, little padding. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { microBatches } from "../../engine/compiled/training/micro-batches.ts";

const LIMITS = { tokens: 256, scores: 256 * 300, predictions: 256 };
const cut = (lengths: readonly number[], limits = LIMITS) =>
  microBatches(
    lengths.map((tokens) => ({ tokens, predictions: tokens })),
    limits,
  );
const WIDE = { tokens: 4096, scores: 4096 * 300, predictions: 4096 };

test("micro-batches hold every sequence once, padded to a multiple of four, within the limit unless alone", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1, maxLength: 40 }), (lengths) => {
      const batches = cut(lengths);
      expect(batches.flatMap(({ rows }) => rows).sort((a, b) => a - b)).toEqual(lengths.map((_, i) => i));
      for (const { rows, tokens } of batches) {
        expect(tokens).toBe(4 * Math.ceil(Math.max(...rows.map((row) => lengths[row] ?? 0)) / 4));
        if (rows.length > 1) expect(rows.length * tokens).toBeLessThanOrEqual(LIMITS.tokens);
      }
    }),
  );
});

// Together 8 x 200 tokens; apart 4 x 200 and 4 x 20, and one more run, which costs as much as 48 tokens.
test("short sequences are not padded to the length of long ones where another micro-batch costs less", () => {
  const parts = cut([20, 200, 20, 200, 20, 200, 20, 200], WIDE);
  expect(parts.map(({ rows, tokens }) => [rows.length, tokens])).toEqual([
    [4, 200],
    [4, 20],
  ]);
  expect(cut([20, 24, 20, 24], WIDE)).toHaveLength(1);
});
