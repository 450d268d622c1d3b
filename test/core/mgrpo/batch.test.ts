/** @file The weights of a step's loss, its minibatches, and what has a signal or a gradient. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { AlgorithmConfig } from "../../../core/contracts/algorithm-config.ts";
import type { RolloutScore } from "../../../core/contracts/records.ts";
import { isMgrpoError } from "../../../core/errors.ts";
import {
  agentScale,
  gradientScale,
  hasGradient,
  hasSignal,
  lossTerms,
  splitMinibatches,
  tokenWeights,
} from "../../../core/mgrpo/batch.ts";
import { finalizeGroup } from "../../../core/mgrpo/finalize.ts";
import { stream } from "../../../core/random.ts";

const constantTokens = 100;
const entry = fc.record({
  group: fc.integer({ min: 0, max: 3 }),
  weight: fc.integer({ min: 1, max: 20 }).map((n) => n / 20),
  actionTokens: fc.integer({ min: 1, max: 30 }),
});
const entries = fc.array(entry, { minLength: 1, maxLength: 20 });
const total = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0);

test("token weights by hand: two trajectories of one question, w = 1/2 each, with 2 and 6 action tokens", () => {
  const given = [
    { group: 0, weight: 0.5, actionTokens: 2 },
    { group: 0, weight: 0.5, actionTokens: 6 },
  ];
  // trajectory-mean: 1/2/2 = 0.25 and 1/2/6 = 0.083333
  const byTrajectory = tokenWeights(given, { aggregation: "trajectory-mean", constantTokens });
  expect(byTrajectory[0]).toBeCloseTo(0.25, 12);
  expect(byTrajectory[1]).toBeCloseTo(1 / 12, 12);
  // token-mean: 8 tokens, 1/8 each
  expect(tokenWeights(given, { aggregation: "token-mean", constantTokens })).toEqual([0.125, 0.125]);
  // constant: 1/2/100
  expect(tokenWeights(given, { aggregation: "constant", constantTokens })).toEqual([0.005, 0.005]);
});

test("trajectory-mean: a trajectory's token weights sum to its share. token-mean: a question's sum to its total share, each proportional to its trajectory's share", () => {
  fc.assert(
    fc.property(entries, (given) => {
      const byTrajectory = tokenWeights(given, { aggregation: "trajectory-mean", constantTokens });
      given.forEach(({ weight, actionTokens }, i) => {
        expect((byTrajectory[i] ?? 0) * actionTokens).toBeCloseTo(weight, 12);
      });
      const byToken = tokenWeights(given, { aggregation: "token-mean", constantTokens });
      for (const group of new Set(given.map((one) => one.group))) {
        const inside = given.flatMap((one, i) => (one.group === group ? [{ ...one, perToken: byToken[i] ?? 0 }] : []));
        const share = total(inside.map((one) => one.perToken * one.actionTokens));
        expect(share).toBeCloseTo(total(inside.map((one) => one.weight)), 9);
        const perUnit = inside.map((one) => one.perToken / one.weight);
        expect(Math.max(...perUnit) - Math.min(...perUnit)).toBeLessThan(1e-9);
      }
    }),
  );
});

test("a trajectory without action tokens has token weight 0; under token-mean, its question's other tokens get its share", () => {
  const silent = { group: 0, weight: 0.5, actionTokens: 0 };
  const other = { group: 0, weight: 0.5, actionTokens: 4 };
  // trajectory-mean: 1/2/4. token-mean: 4 tokens, 1/4 each. constant: 1/2/100.
  for (const [aggregation, weight] of [
    ["trajectory-mean", 0.125],
    ["token-mean", 0.25],
    ["constant", 0.005],
  ] as const) {
    expect(tokenWeights([silent, other], { aggregation, constantTokens })).toEqual([0, weight]);
    expect(tokenWeights([silent], { aggregation, constantTokens })).toEqual([0]);
  }
});

test("a step is the mean over its questions, and each minibatch stands for the whole batch", () => {
  // Five questions: 1/5. Two minibatches have half of the trajectories each: 2/5.
  expect(gradientScale(5, 1)).toBeCloseTo(0.2, 12);
  expect(gradientScale(5, 2)).toBeCloseTo(0.4, 12);
});

/** The entries of questions with these numbers of trajectories, in order. */
const questions = (...sizes: number[]) =>
  sizes.flatMap((size, group) => Array.from({ length: size }, (_, i) => ({ group, i })));
const split = (given: readonly { group: number; i: number }[], count: number, seed: number) =>
  splitMinibatches(given, count, stream("minibatches", seed));

test.each([0, -1, 1.5, Number.NaN])("%d minibatches are refused, since some entries would be in none", (count) => {
  const refusal = new RangeError(`${count} minibatches: give a positive integer`);
  expect(() => splitMinibatches([{ group: 0 }, { group: 1 }], count, stream(1))).toThrow(refusal);
});

test("each agent of a shared policy counts by its share times the mean over its own questions", () => {
  // Main has questions 0, 1, 2, the searcher only question 1; every question's plain sum is 6.
  // By hand: 0.75 * 6 + 0.25 * 6 = 6.
  const all = 3;
  const main = 3 * 6 * agentScale(0.75, { own: 3, all });
  const searcher = 1 * 6 * agentScale(0.25, { own: 1, all });
  expect((main + searcher) * gradientScale(all, 1)).toBeCloseTo(0.75 * 6 + 0.25 * 6, 12);
  expect(searcher * gradientScale(all, 1)).toBeCloseTo(0.25 * 6, 12);
  fc.assert(fc.property(fc.integer({ min: 1, max: 1000 }), (n) => agentScale(1, { own: n, all: n }) === 1));
});

test("minibatches partition the batch in its order, none empty; their sizes differ by at most one, overall and per question; the same stream gives the same split", () => {
  const sizes = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 6 });
  fc.assert(
    fc.property(sizes, fc.integer({ min: 1, max: 12 }), fc.nat(), (perQuestion, count, seed) => {
      const given = questions(...perQuestion);
      const parts = split(given, count, seed);
      expect(parts).toHaveLength(Math.min(count, given.length));
      expect(new Set(parts.flat())).toEqual(new Set(given));
      expect(parts.flat()).toHaveLength(given.length);
      for (const group of [undefined, ...perQuestion.keys()]) {
        const counts = parts.map((part) => part.filter((one) => group === undefined || one.group === group).length);
        expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
        if (group === undefined) expect(Math.min(...counts)).toBeGreaterThan(0);
      }
      for (const part of parts)
        expect(part.map((one) => given.indexOf(one))).toEqual(
          part.map((one) => given.indexOf(one)).toSorted((a, b) => a - b),
        );
      expect(split(given, count, seed)).toEqual(parts);
    }),
  );
  expect(split([], 3, 1)).toEqual([]);
});

test("a single minibatch is the whole batch, in order", () => {
  expect(split(questions(3, 4), 1, 5)).toEqual([questions(3, 4)]);
});

test("first and second calls are mixed: over many steps, every trajectory is in each minibatch equally often", () => {
  // Two questions, four rollouts of two calls each: even entries are first calls.
  const given = questions(8, 8);
  const steps = 2000;
  const inFirst = new Map(given.map((one) => [one, 0]));
  const firstCalls = new Set<number>();
  for (let step = 0; step < steps; step++) {
    const [part = []] = split(given, 2, step);
    for (const one of part) inFirst.set(one, (inFirst.get(one) ?? 0) + 1);
    firstCalls.add(part.filter(({ i }) => i % 2 === 0).length);
  }
  // Probability 1/2: five standard errors.
  for (const times of inFirst.values()) expect(Math.abs(times / steps - 0.5)).toBeLessThan(5 * Math.sqrt(0.25 / steps));
  expect(firstCalls.size).toBeGreaterThan(4);
});

test("loss terms pair a group's advantages with token weights; a single stored share applies to every trajectory, and a missing advantage is refused", () => {
  // Shares 1/4 and 3/4 of trajectories with 2 and 3 action tokens: 1/4/2 and 3/4/3. A single stored share of 1/2 applies to both.
  const batch = { trajectories: ["0/0", "1/0"], advantages: [0.5, -1], mean: 0, std: 1, duplicated: 0, dropped: 0 };
  const aggregation = { aggregation: "trajectory-mean", constantTokens } as const;
  expect(lossTerms({ ...batch, weights: [0.25, 0.75] }, [2, 3], aggregation)).toEqual([
    { advantage: 0.5, tokenWeight: 0.125 },
    { advantage: -1, tokenWeight: 0.25 },
  ]);
  expect(lossTerms({ ...batch, weights: [0.5] }, [2, 4], aggregation).map(({ tokenWeight }) => tokenWeight)).toEqual([
    0.25, 0.125,
  ]);
  // A trajectory without a token count has weight 0; the others keep theirs.
  expect(lossTerms({ ...batch, weights: [0.5] }, [2], aggregation).map(({ tokenWeight }) => tokenWeight)).toEqual([
    0.25, 0,
  ]);
  expect(() => lossTerms({ ...batch, advantages: [0.5], weights: [0.5] }, [2, 4], aggregation)).toThrow(
    expect.toSatisfy(
      (error) =>
        isMgrpoError(error, "record-damaged") &&
        error.message === "finalized.advantages is shorter than finalized.trajectories",
    ),
  );
});

test("a trajectory has a gradient if its tokens have weight and it has an advantage, a KL penalty or an entropy bonus", () => {
  const entropy = { start: 0, end: 0.01 };
  for (const tokenWeight of [0, 0.5]) {
    for (const advantage of [0, -1]) {
      for (const coefficient of [0, 0.1]) {
        for (const bonus of [null, entropy]) {
          const options = { kl: { coefficient, estimator: "k3" as const }, entropy: bonus };
          const pulls = advantage !== 0 || coefficient > 0 || bonus !== null;
          expect(hasGradient({ advantage, tokenWeight }, options)).toBe(tokenWeight > 0 && pulls);
        }
      }
    }
  }
});

test("if all advantages are 0, a group has a signal, and a trajectory a gradient, only if a turn's offset is not 0", () => {
  const batch = { trajectories: ["0/0", "1/0"], weights: [0.5], mean: 1, std: 0, duplicated: 0, dropped: 0 };
  const options = { kl: AlgorithmConfig.parse({}).kl, entropy: null };
  for (const [turns, learns] of [
    [[0, 0], false],
    [[0, 0.5], true],
    [[], false],
  ] as const) {
    expect(hasSignal({ ...batch, advantages: [0, 0], turns: [[0], [...turns]] })).toBe(learns);
    expect(hasGradient({ advantage: 0, tokenWeight: 0.5, turns }, options)).toBe(learns);
  }
  expect(hasSignal({ ...batch, advantages: [0, 0] })).toBe(false);
  expect(hasSignal({ ...batch, advantages: [0, -0.5], turns: [[0], [0]] })).toBe(true);
});

test("trajectories without a share or without action tokens have token weight 0, never NaN, even if their question has no other", () => {
  for (const aggregation of ["trajectory-mean", "token-mean", "constant"] as const) {
    expect(tokenWeights([{ group: 0, weight: 0, actionTokens: 4 }], { aggregation, constantTokens })).toEqual([0]);
    expect(tokenWeights([{ group: 0, weight: 1, actionTokens: 0 }], { aggregation, constantTokens })).toEqual([0]);
  }
});

test("a sub-agent that only one rollout called has no signal under leave-one-out, where its advantages are 0, but has one under the paper's baseline", () => {
  const called = (own: number) => ({ id: String(own).padEnd(22, "a"), reward: own, expert: 0 });
  const rollout = (reward: number, calls: readonly number[]): RolloutScore => ({
    ...{ reward, correct: reward, wellFormed: true, tokens: 1, invocations: { s: calls.map(called) } },
  });
  const group = { 0: rollout(1, [1, 0.2]), 1: rollout(0, []) };
  const signalOf = (baseline: "group" | "leave-one-out") => {
    const algorithm = AlgorithmConfig.parse({ baseline, alignment: { mode: "weighted", d: 2 } });
    const { s, main } = finalizeGroup(group, "main", ["s"], algorithm, [1]);
    return { std: s?.std, s: hasSignal(s), main: hasSignal(main) };
  };
  // Rewards 1 and 0.2 around 0.6.
  const std = expect.closeTo(0.4);
  expect(signalOf("leave-one-out")).toEqual({ std, s: false, main: true });
  expect(signalOf("group")).toEqual({ std, s: true, main: true });
});
