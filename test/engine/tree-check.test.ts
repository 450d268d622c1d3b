/** @file Prefix trees are checked on first use: passes that compute a tree wrongly are refused at the first tree that can be compared. */
import { expect, test } from "vitest";
import { checkedPasses } from "../../engine/compiled/training/tree-check.ts";
import { OPTIONS, TINY } from "./tiny.ts";

const prompt = Array.from({ length: 60 }, (_, t) => t % 30);
const batch = Array.from({ length: 8 }, (_, k) => {
  const tokens = [...prompt, k, k, k];
  return { tokens, weights_T: Float32Array.from(tokens, (_x, t) => (t < 60 ? 0 : 1)) };
});
const sequences = batch.map(({ tokens }) => tokens);
const options = { ...OPTIONS, microBatchTokens: 512 };

/** Every log-prob is `value`. */
function passesWith(value: number) {
  const calls: string[] = [];
  const logProbsOf = (rows: readonly (readonly number[])[]) =>
    rows.map(({ length }) => new Float32Array(length).fill(value));
  return {
    calls,
    async logProbs(rows: readonly (readonly number[])[]) {
      calls.push(`logProbs of ${rows.length}`);
      return logProbsOf(rows);
    },
    async forwardBackward(rows: typeof batch) {
      calls.push(`forwardBackward of ${rows.length}`);
      return { loss: 0, logProbs: logProbsOf(rows.map(({ tokens }) => tokens)) };
    },
  };
}

test("one sequence of the first batch in trees is computed alone; later batches are not checked", async () => {
  const [trees, apart] = [passesWith(-2), passesWith(-2.0001)];
  const checked = checkedPasses(trees as never, () => apart as never, TINY, options);
  await checked.logProbs([[1, 2, 3]], 1);
  expect(apart.calls).toEqual([]);
  for (let pass = 0; pass < 2; pass++) await checked.forwardBackward(batch, { kind: "linear" }, 1);
  expect(apart.calls).toEqual(["logProbs of 1"]);
});

test("a log-prob that differs is refused with the setting that helps; without trees nothing is checked", async () => {
  const off = checkedPasses(passesWith(-2) as never, () => passesWith(-2.5) as never, TINY, {
    ...options,
    prefixTrees: false,
  });
  await off.logProbs(sequences, 1);
  for (const value of [-2.5, Number.NaN]) {
    const wrong = checkedPasses(passesWith(-2) as never, () => passesWith(value) as never, TINY, options);
    await expect(wrong.forwardBackward(batch, { kind: "linear" }, 1)).rejects.toMatchObject({
      code: "engine-unsupported",
      message: expect.stringMatching(/log-prob of token 60 is -2 .* set engine.prefixTrees to false/),
    });
  }
});

test("a tree whose last sequence has weight 0 has nothing to compare: the next batch is checked", async () => {
  const wrong = checkedPasses(passesWith(-2) as never, () => passesWith(-2.5) as never, TINY, options);
  const unweighted = batch.map(({ tokens }) => ({ tokens, weights_T: new Float32Array(tokens.length) }));
  await wrong.forwardBackward(unweighted, { kind: "linear" }, 1);
  await expect(wrong.forwardBackward(batch, { kind: "linear" }, 1)).rejects.toThrow(/log-prob of token 60 is -2/);
});

test("equal sequences are a tree without branches, which checks nothing: the next batch is checked", async () => {
  const apart = passesWith(-2.5);
  const wrong = checkedPasses(passesWith(-2) as never, () => apart as never, TINY, options);
  const equal = batch.map(() => batch[0] ?? expect.fail("no sequence"));
  await wrong.forwardBackward(equal, { kind: "linear" }, 1);
  expect(apart.calls).toEqual([]);
  await expect(wrong.forwardBackward(batch, { kind: "linear" }, 1)).rejects.toThrow(/log-prob of token 60 is -2/);
});

test("sequences that differ in their last token alone are a single path, which checks nothing: the next batch is checked", async () => {
  const apart = passesWith(-2.5);
  const wrong = checkedPasses(passesWith(-2) as never, () => apart as never, TINY, options);
  // The last token predicts nothing, so it has no node: the paths of the others are the first 60 nodes of the first one's.
  const path = sequences.map((tokens, k) => (k === 0 ? tokens : tokens.slice(0, 61)));
  await wrong.logProbs(path, 1);
  expect(apart.calls).toEqual([]);
  await expect(wrong.logProbs(sequences, 1)).rejects.toThrow(/log-prob of token 1 is -2 /);
});

test("weights before the branches alone check nothing: the next batch is checked", async () => {
  const apart = passesWith(-2.5);
  const wrong = checkedPasses(passesWith(-2) as never, () => apart as never, TINY, options);
  const early = sequences.map((tokens) => {
    return { tokens, weights_T: Float32Array.from(tokens, (_x, t) => (t < 60 ? 1 : 0)) };
  });
  await wrong.forwardBackward(early, { kind: "linear" }, 1);
  expect(apart.calls).toEqual([]);
  await expect(wrong.forwardBackward(batch, { kind: "linear" }, 1)).rejects.toThrow(/log-prob of token 60 is -2/);
});

test("a batch with too many predictions for a tree checks nothing, where they limit trees: the next batch is checked", async () => {
  // A tree may have 200 predictions, as many as the largest micro-batch has tokens. Two of these sequences have 240.
  const small = { ...OPTIONS, microBatchTokens: 64 };
  const long = Array.from({ length: 8 }, (_, k) => {
    const tokens = [...prompt, ...prompt.slice(0, 57), k, k, k];
    return { tokens, weights_T: new Float32Array(tokens.length).fill(1) };
  });
  const [trees, apart] = [{ ...passesWith(-2), limitsPredictions: true }, passesWith(-2.5)];
  const wrong = checkedPasses(trees as never, () => apart as never, TINY, small);
  await wrong.forwardBackward(long, { kind: "linear" }, 1);
  expect(apart.calls).toEqual([]);
  await expect(wrong.forwardBackward(batch, { kind: "linear" }, 1)).rejects.toThrow(/log-prob of token 60 is -2/);
});
