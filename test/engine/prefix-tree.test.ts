/** @file Prefix trees as plain arrays: their laws, and the plan of a batch. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { planBatch, planMicroBatches, rowCount } from "../../engine/compiled/training/batch-plan.ts";
import { limitsOf } from "../../engine/compiled/training/micro-batches.ts";
import {
  computedLength,
  fillTreeMask,
  lexicographicOrder,
  prefixTree,
  treeLength,
} from "../../engine/model/prefix-tree.ts";
import { planTrees } from "../../engine/model/tree-plan.ts";
import { OPTIONS, TINY } from "./tiny.ts";

/** Few distinct tokens, so that prefixes are shared. */
const sequence = fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 1, maxLength: 8 });
const sequences = fc.array(sequence, { minLength: 1, maxLength: 12 });
const sorted = (batch: readonly (readonly number[])[]) => lexicographicOrder(batch).map((i) => batch[i] ?? []);

describe("a tree", () => {
  test("of two continuations of 1 2 3, and one that branches off after 2, has the nodes worked out by hand", () => {
    const tree = prefixTree([
      [1, 2, 3, 4],
      [1, 2, 3, 5, 6],
      [1, 2, 7, 8],
    ]);
    expect(Array.from(tree.tokens)).toEqual([1, 2, 3, 5, 7]);
    expect(Array.from(tree.positions)).toEqual([0, 1, 2, 3, 2]);
    expect(Array.from(tree.ends)).toEqual([5, 5, 4, 4, 5]);
    expect(tree.nodes.map((nodes) => Array.from(nodes))).toEqual([
      [0, 1, 2],
      [0, 1, 2, 3],
      [0, 1, 4],
    ]);
  });

  test("has one node per distinct prefix; each sequence finds its tokens at their positions and sees exactly its own prefix", () => {
    fc.assert(
      fc.property(sequences, (unsorted) => {
        const batch = sorted(unsorted);
        const tree = prefixTree(batch);
        const count = tree.tokens.length + 3;
        const mask = new Float32Array(count * count);
        fillTreeMask(mask, tree, count);
        batch.forEach((tokens, s) => {
          const nodes = Array.from(tree.nodes[s] ?? []);
          expect(nodes.map((node) => tree.tokens[node])).toEqual(tokens.slice(0, computedLength(tokens)));
          nodes.forEach((node, t) => {
            expect(tree.positions[node]).toBe(t);
            const seen = Array.from({ length: count }, (_, k) => k).filter((k) => mask[node * count + k] === 0);
            expect(seen).toEqual(nodes.slice(0, t + 1));
          });
        });
        const prefixes = new Set(
          batch.flatMap((tokens) =>
            Array.from({ length: computedLength(tokens) }, (_, t) => tokens.slice(0, t + 1).join()),
          ),
        );
        expect(tree.tokens).toHaveLength(prefixes.size);
        expect(treeLength(batch)).toBe(prefixes.size);
        // Padding sees itself, so that its softmax is finite.
        expect(mask[count * count - 1]).toBe(0);
      }),
    );
  });
});

describe("a plan", () => {
  const rowCost = (tokens: number) => tokens + tokens ** 2 / 10;

  test("holds every sequence once, within the limits, and costs at most as much as separate sequences", () => {
    fc.assert(
      fc.property(sequences, fc.integer({ min: 4, max: 40 }), (batch, tokens) => {
        const trees = planTrees(batch, () => 2, rowCost, { tokens, predictions: 10 });
        expect(trees.flat().sort((a, b) => a - b)).toEqual(batch.map((_, i) => i));
        const length = (members: readonly number[]) => treeLength(members.map((member) => batch[member] ?? []));
        for (const members of trees) {
          expect(members.length).toBeLessThanOrEqual(5);
          if (members.length > 1) expect(length(members)).toBeLessThanOrEqual(tokens);
        }
        const cost = trees.reduce((sum, members) => sum + rowCost(length(members)), 0);
        const separate = batch.reduce((sum, { length: own }) => sum + rowCost(Math.max(1, own - 1)), 0);
        expect(cost).toBeLessThanOrEqual(separate + 1e-9);
      }),
    );
  });

  // Two groups of three sequences share 10 tokens within a group and 2 across groups.
  // In one tree: 2 + 2 (8 + 3) = 24 tokens, which cost 24 + 57.6 = 81.6. In a tree per group: 10 + 3 = 13 tokens each, which cost 2 (13 + 16.9) = 59.8.
  test("branches that share too little become separate trees, since each pays for the other's attention", () => {
    const branch = (first: number, last: number) => [9, 9, ...Array<number>(8).fill(first), last, 0];
    const batch = [1, 2].flatMap((first) => [3, 4, 5].map((last) => branch(first, last)));
    expect(planTrees(batch, () => 0, rowCost, { tokens: 100, predictions: 100 })).toEqual([
      [0, 1, 2],
      [3, 4, 5],
    ]);
    expect(
      planTrees(
        batch,
        () => 0,
        (tokens) => tokens,
        { tokens: 100, predictions: 100 },
      ),
    ).toHaveLength(1);
  });

  const prompt = Array.from({ length: 60 }, (_, t) => t % 30);
  const rollouts = Array.from({ length: 8 }, (_, k) => [...prompt, k, k, k]);
  const options = { ...OPTIONS, microBatchTokens: 512 };

  test("uses trees only where they save enough, and only if they are allowed", () => {
    expect(planBatch(rollouts, () => 0, TINY, options).kind).toBe("trees");
    expect(planBatch(rollouts, () => 0, TINY, { ...options, prefixTrees: false }).kind).toBe("sequences");
    const different = rollouts.map((tokens, k) => [k, ...tokens]);
    expect(planBatch(different, () => 0, TINY, options)).toEqual({
      kind: "sequences",
      rows: different.map((_, k) => [k]),
    });
    // These share only their first 6 of 64 tokens.
    const little = rollouts.map((tokens, k) => [...tokens.slice(0, 6), k, ...tokens.slice(6)]);
    expect(planBatch(little, () => 0, TINY, options).kind).toBe("sequences");
  });

  test("equal sequences are one row, and micro-batches of trees stay within the limits on scores and predictions", () => {
    const equal = Array<number[]>(8).fill(prompt);
    const planOfEqual = planMicroBatches(equal, () => 0, TINY, options);
    expect(planOfEqual).toMatchObject([{ members: [0, 1, 2, 3, 4, 5, 6, 7], tokens: 60 }]);
    expect(planOfEqual.map(rowCount)).toEqual([1]);
    const many = Array.from({ length: 40 }, (_, k) => [...prompt, ...prompt.slice(0, 6).map((t) => (t + k) % 37)]);
    const { scores, predictions: most } = limitsOf(options);
    const plan = planMicroBatches(many, () => 30, TINY, options);
    expect(plan.some(({ trees }) => trees)).toBe(true);
    for (const micro of plan) {
      expect(rowCount(micro) * micro.tokens ** 2).toBeLessThanOrEqual(scores);
      expect(micro.members.length * 30).toBeLessThanOrEqual(most);
    }
  });
});
