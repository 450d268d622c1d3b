/** @file Micro-batches: nothing lost, nothing over the limit, little padding. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { microBatches } from "../../engine/compiled/training/micro-batches.ts";

const LIMIT = 256;

test("micro-batches hold every sequence once, padded to a multiple of four, within the limit unless alone", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1, maxLength: 40 }), (lengths) => {
      const batches = microBatches(lengths, LIMIT);
      expect(batches.flatMap(({ members }) => members).sort((a, b) => a - b)).toEqual(lengths.map((_, i) => i));
      for (const { members, tokens } of batches) {
        expect(tokens).toBe(4 * Math.ceil(Math.max(...members.map((member) => lengths[member] ?? 0)) / 4));
        if (members.length > 1) expect(members.length * tokens).toBeLessThanOrEqual(LIMIT);
      }
    }),
  );
});

// Together 8 x 200 tokens; apart 4 x 200 and 4 x 20, and one more run, which costs as much as 48 tokens.
test("short sequences are not padded to the length of long ones where another micro-batch costs less", () => {
  const parts = microBatches([20, 200, 20, 200, 20, 200, 20, 200], 4096);
  expect(parts.map(({ members, tokens }) => [members.length, tokens])).toEqual([
    [4, 200],
    [4, 20],
  ]);
  expect(microBatches([20, 24, 20, 24], 4096)).toHaveLength(1);
});
