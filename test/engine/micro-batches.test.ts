/** @file Micro-batches: every sequence once, within the limits, little padding. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { microBatches } from "../../engine/compiled/training/micro-batches.ts";

/** At most 300 tokens a sequence, so only the limit on tokens binds. */
const LIMITS = { tokens: 256, scores: 256 * 300, predictions: 256 };
const cut = (lengths: readonly number[], limits = LIMITS) =>
  microBatches(
    lengths.map((tokens) => ({ tokens, predictions: tokens })),
    limits,
  );
const LARGE_LIMITS = { tokens: 4096, scores: 4096 * 300, predictions: 4096 };

test("micro-batches hold every sequence once, padded to a multiple of four, within the limit on tokens unless alone", () => {
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

// 4 rows of 8 tokens, each with 10 predictions: 4 * 8 ** 2 = 256 scores and 4 * 10 = 40 predictions together.
test.each([
  ["scores", { scores: 256 }, [4]],
  // 2 * 8 ** 2 = 128 and 3 * 8 ** 2 = 192
  ["scores", { scores: 191 }, [2, 2]],
  ["scores", { scores: 63 }, [1, 1, 1, 1]],
  ["predictions", { predictions: 40 }, [4]],
  // 2 * 10 = 20 and 3 * 10 = 30
  ["predictions", { predictions: 29 }, [2, 2]],
  ["predictions", { predictions: 9 }, [1, 1, 1, 1]],
])("a micro-batch of several sequences is within the limit on %s: %o", (_, limit, rows) => {
  const sizes = Array.from({ length: 4 }, () => ({ tokens: 8, predictions: 10 }));
  const batches = microBatches(sizes, { tokens: 32, scores: 256, predictions: 40, ...limit });
  expect(batches.map((batch) => batch.rows.length)).toEqual(rows);
});

// Each micro-batch has a fixed cost of 48 tokens. Together: 8 * 200 + 48 = 1648; separately: 4 * 200 + 4 * 20 + 2 * 48 = 976.
test("short sequences are not padded to the length of long ones where another micro-batch costs less", () => {
  const parts = cut([20, 200, 20, 200, 20, 200, 20, 200], LARGE_LIMITS);
  expect(parts.map(({ rows, tokens }) => [rows.length, tokens])).toEqual([
    [4, 200],
    [4, 20],
  ]);
  // Together: 4 * 24 + 48 = 144; separately: 2 * 24 + 2 * 20 + 2 * 48 = 184.
  expect(cut([20, 24, 20, 24], LARGE_LIMITS)).toHaveLength(1);
});
