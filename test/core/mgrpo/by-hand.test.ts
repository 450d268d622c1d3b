/**
 * @file One question worked by hand through core/mgrpo: rewards, alignment, advantages, weights, loss. K = 3, one sub-agent,
 * d = 2, d_k = 1, 3 and 0.
 */
import { expect, test } from "vitest";
import { AlgorithmConfig } from "../../../core/contracts/algorithm-config.ts";
import type { RolloutScore } from "../../../core/contracts/records.ts";
import { tokenWeights, trajectoryWeights } from "../../../core/mgrpo/batch.ts";
import { finalizeGroup } from "../../../core/mgrpo/finalize.ts";
import { trajectoryLoss } from "../../../core/mgrpo/loss.ts";
import { mainReward, subReward } from "../../../core/mgrpo/reward.ts";

const algorithm = AlgorithmConfig.parse({ alignment: { mode: "weighted", d: 2 }, epsilon: 1e-12 });
const { mainReward: a, subReward: b } = algorithm;
const id = (letter: string) => letter.repeat(22);

/** Rollout 0: correct, one call, expert 1. Rollout 1: wrong, three calls, expert 1, 0, 1 (malformed). Rollout 2: malformed, no calls. */
const rollouts = (): Record<string, RolloutScore> => ({
  0: {
    reward: mainReward(true, 1, a), // 0.1 + 0.9*1 = 1
    correct: 1,
    wellFormed: true,
    tokens: 10,
    invocations: { searcher: [{ id: id("a"), expert: 1, reward: subReward(true, 1, 1, b) }] }, // 0.1 + 0.4 + 0.5 = 1
  },
  1: {
    reward: mainReward(true, 0, a), // 0.1
    correct: 0,
    wellFormed: true,
    tokens: 10,
    invocations: {
      searcher: [
        { id: id("b"), expert: 1, reward: subReward(true, 0, 1, b) }, // 0.1 + 0 + 0.5 = 0.6
        { id: id("c"), expert: 0, reward: subReward(true, 0, 0, b) }, // 0.1
        { id: id("d"), expert: 1, reward: subReward(false, 0, 1, b) }, // malformed: 0
      ],
    },
  },
  2: { reward: mainReward(false, 1, a), correct: 1, wellFormed: false, tokens: 10, invocations: {} }, // malformed: 0
});

const finalized = () => finalizeGroup(rollouts(), "main", ["searcher"], algorithm, [1, "train", 0, 0]);

test("main: mean and std are over all K rollouts (eq 9-10)", () => {
  // mean = (1 + 0.1 + 0)/3 = 0.366667
  // deviations 0.633333, -0.266667, -0.366667; squares 0.401111, 0.071111, 0.134444; variance = 0.606667/3 = 0.202222; std = 0.449691
  // advantages 0.633333/0.449691 = 1.408373, -0.266667/0.449691 = -0.593000, -0.366667/0.449691 = -0.815374
  const main = finalized()["main"];
  expect(main?.trajectories).toEqual([0, 1, 2]);
  expect(main && trajectoryWeights(main)).toEqual([1 / 3, 1 / 3, 1 / 3]);
  expect(main?.mean).toBeCloseTo(0.366667, 6);
  expect(main?.std).toBeCloseTo(0.449691, 6);
  close(main?.advantages, [1.408373, -0.593, -0.815374]);
});

test("searcher: rollout 2 has no calls, the other two have equal weight, and mean and std are over the aligned trajectories (eq 12-13)", () => {
  // weights: a 1/2*1 = 0.5; b, c, d 1/2*1/3 = 0.166667
  // mean = 0.5*1 + (0.6 + 0.1 + 0)/6 = 0.5 + 0.116667 = 0.616667      (without alignment, the pooled mean would be 1.7/4 = 0.425)
  // squares: 0.383333^2 = 0.146944, 0.016667^2 = 0.000278, 0.516667^2 = 0.266944, 0.616667^2 = 0.380278
  // variance = 0.073472 + (0.000278 + 0.266944 + 0.380278)/6 = 0.073472 + 0.107917 = 0.181389; std = 0.425898
  // advantages 0.383333/0.425898 = 0.900059, -0.016667/0.425898 = -0.039133, -0.516667/0.425898 = -1.213123, -1.447921
  const searcher = finalized()["searcher"];
  expect(searcher?.trajectories).toEqual(["0/0", "1/0", "1/1", "1/2"]);
  close(searcher?.weights, [0.5, 1 / 6, 1 / 6, 1 / 6]);
  expect(searcher?.mean).toBeCloseTo(0.616667, 6);
  expect(searcher?.std).toBeCloseTo(0.425898, 6);
  close(searcher?.advantages, [0.900059, -0.039133, -1.213123, -1.447921]);
});

test("resample: rollout 0 duplicates its only call, rollout 1 drops one of three; the mean is over the four aligned trajectories", () => {
  const resampled = finalizeGroup(
    rollouts(),
    "main",
    ["searcher"],
    { ...algorithm, alignment: { mode: "resample", d: 2 } },
    [1],
  );
  const searcher = resampled["searcher"];
  // d = 2 for each of the 2 rollouts with calls, so 4 aligned trajectories: a twice (weight 2/4), two of {b, c, d} once (weight 1/4 each)
  expect(searcher?.trajectories[0]).toBe("0/0");
  expect(searcher?.weights).toEqual([0.5, 0.25, 0.25]);
  expect([searcher?.duplicated, searcher?.dropped]).toEqual([1, 1]);
  const reward = new Map<unknown, number>([
    ["0/0", 1],
    ["1/0", 0.6],
    ["1/1", 0.1],
    ["1/2", 0],
  ]);
  const [first, second, third] = (searcher?.trajectories ?? []).map((name) => Number(reward.get(name)));
  expect(searcher?.mean).toBeCloseTo((Number(first) * 2 + Number(second) + Number(third)) / 4, 12);
});

test("the loss of main's rollout 0 averages its clipped terms over tokens, trajectories and two questions", () => {
  // Each trajectory of main has weight 1/3 in its question. Rollout 0 has 2 action tokens: 1/6 each, or 1/12 averaged over two questions.
  const main = finalized()["main"];
  if (!main) throw new Error("not finalized");
  const [weight = Number.NaN] = trajectoryWeights(main);
  const [inQuestion = Number.NaN] = tokenWeights([{ group: 0, weight, actionTokens: 2 }], algorithm);
  const tokenWeight = inQuestion / 2;
  expect(tokenWeight).toBeCloseTo(1 / 12, 12);
  // Ratios 1.1 and 1.5; A = 1.408373 > 0, clip-high 0.28: terms 1.1*A and 1.28*A
  // loss = -(1.1 + 1.28)*1.408373/12 = -0.279327; gradient at the first token -1.1*1.408373/12 = -0.129101, at the clipped one 0
  const { loss, gradient_A, clipped } = trajectoryLoss(
    {
      advantage: main.advantages[0] ?? Number.NaN,
      tokenWeight,
      current_A: [Math.log(0.55), Math.log(0.3)],
      behavior_A: [Math.log(0.5), Math.log(0.2)],
      proximal_A: [],
      reference_A: [],
    },
    algorithm,
  );
  expect(loss).toBeCloseTo(-0.279327, 6);
  close(gradient_A, [-0.129101, 0]);
  expect(clipped).toBe(1);
});

function close(actual: readonly number[] | undefined, expected: readonly number[]): void {
  expect(actual).toHaveLength(expected.length);
  expected.forEach((value, i) => {
    expect(actual?.[i]).toBeCloseTo(value, 5);
  });
}
