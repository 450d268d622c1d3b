/** @file The split into trained and held-out demonstrations, and the order of training. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { batchesOf, passes, split } from "../../sft/batches.ts";
import { allTokens, type Example } from "../../sft/example.ts";

const example = (tokens: readonly number[]): Example => ({ tokens, turns: [[1, tokens.length]] });
const EXAMPLES = Array.from({ length: 200 }, (_, i) => example([i, i + 1, i + 2]));

test("whether an example is held out depends on its own tokens alone", () => {
  const { training, heldOut } = split(EXAMPLES, 0.1, 1000);
  expect(training.length + heldOut.length).toBe(200);
  // 200 draws at 0.1: 20 on average, with a standard deviation of 4.2; 17 is four of them.
  expect(Math.abs(heldOut.length - 20)).toBeLessThan(17);
  fc.assert(
    fc.property(fc.subarray(EXAMPLES), (some) => {
      const part = split(some, 0.1, 1000);
      for (const one of part.heldOut) expect(heldOut).toContain(one);
      for (const one of part.training) expect(training).toContain(one);
    }),
    { numRuns: 20 },
  );
});

test("equal examples are on the same side, held out at most once; the limit caps the held-out ones and does not change training", () => {
  const { training, heldOut } = split([...EXAMPLES, ...EXAMPLES], 0.1, 1000);
  const keys = heldOut.map(({ tokens }) => tokens.join());
  expect(new Set(keys).size).toBe(keys.length);
  for (const { tokens } of training) expect(keys).not.toContain(tokens.join());
  const capped = split(EXAMPLES, 0.1, 5);
  expect(capped.heldOut).toEqual(split(EXAMPLES, 0.1, 1000).heldOut.slice(0, 5));
  expect(capped.training).toEqual(split(EXAMPLES, 0.1, 1000).training);
});

test("split by prompt, all answers to a prompt are on the same side, and one answer to each held-out prompt is evaluated", () => {
  const answers = Array.from({ length: 800 }, (_, i): Example => ({ tokens: [i % 100, 7, i], turns: [[2, 3]] }));
  const promptsOf = (examples: readonly Example[]) => examples.map(({ tokens }) => tokens[0]);
  const byPrompt = split(answers, 0.2, 1000, "prompt");
  const heldOut = promptsOf(byPrompt.heldOut);
  expect(new Set(heldOut).size).toBe(heldOut.length);
  // 100 draws at 0.2: 20 on average, with a standard deviation of 4.
  expect(Math.abs(heldOut.length - 20)).toBeLessThan(17);
  expect(byPrompt.training).toHaveLength(8 * (100 - heldOut.length));
  for (const prompt of promptsOf(byPrompt.training)) expect(heldOut).not.toContain(prompt);
  // By tokens, most held-out answers have siblings that are trained on.
  const byTokens = split(answers, 0.2, 1000);
  const trained = new Set(promptsOf(byTokens.training));
  expect(promptsOf(byTokens.heldOut).filter((prompt) => trained.has(prompt)).length).toBeGreaterThan(100);
});

test("every pass has each example once, in an order of its own that the seed determines", () => {
  const two = [...passes(EXAMPLES, 2 * allTokens(EXAMPLES), [1, "main"])];
  const [first, second] = [two.slice(0, 200), two.slice(200)];
  expect(second).toHaveLength(200);
  expect(new Set(first)).toEqual(new Set(EXAMPLES));
  expect(new Set(second)).toEqual(new Set(EXAMPLES));
  expect(second).not.toEqual(first);
  expect([...passes(EXAMPLES, 600, [1, "main"])]).toEqual(first);
  expect([...passes(EXAMPLES, 600, [2, "main"])]).not.toEqual(first);
});

test("passes end as soon as the tokens are spent; batches keep the order, lose nothing, and only the last may be small", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 2000 }), fc.integer({ min: 1, max: 50 }), (tokens, batchTokens) => {
      const all = [...passes(EXAMPLES, tokens, [1])];
      expect(allTokens(all)).toBeGreaterThanOrEqual(tokens);
      expect(allTokens(all.slice(0, -1))).toBeLessThan(tokens);
      const batches = [...batchesOf(all, batchTokens)];
      expect(batches.flat()).toEqual(all);
      for (const batch of batches.slice(0, -1)) expect(allTokens(batch)).toBeGreaterThanOrEqual(batchTokens);
    }),
  );
});
