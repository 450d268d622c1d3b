/** @file Advantages of turns, worked by hand, and where they are used. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { AlgorithmConfig } from "../../../core/contracts/algorithm-config.ts";
import type { AgentBatch, RolloutScore } from "../../../core/contracts/records.ts";
import { hasSignal, lossTerms } from "../../../core/mgrpo/batch.ts";
import { finalizeGroup } from "../../../core/mgrpo/finalize.ts";
import { spreadTurns } from "../../../core/mgrpo/tokens.ts";
import { type TurnRewards, turnOffsets } from "../../../core/mgrpo/turn-advantage.ts";

const options = AlgorithmConfig.parse({ turnWeight: 1, epsilon: 1e-12, alignment: { mode: "weighted", d: 2 } });
const close = (found: readonly number[] | undefined, expected: readonly number[]) => {
  expect(found).toHaveLength(expected.length);
  expected.forEach((value, i) => {
    expect(found?.[i]).toBeCloseTo(value, 6);
  });
};

test("MT-GRPO's case: if only the first of two turns is rewarded, by 1 or 0, its offset is turnWeight or -turnWeight, and the second turn's is 0", () => {
  // mean 0.5, std 0.5
  const half = { ...options, turnWeight: 0.5 };
  const rewards = [
    [1, null],
    [0, null],
  ];
  close(turnOffsets(rewards, [0.5, 0.5], half).flat(), [0.5, 0, -0.5, 0]);
});

test("under advantageScale none, offsets are not divided by the std; under batch, by that of the group's turns", () => {
  // mean 0.5, std 0.5
  const rewards = [[1], [0]];
  close(turnOffsets(rewards, [0.5, 0.5], { ...options, advantageScale: "none" }).flat(), [0.5, -0.5]);
  close(turnOffsets(rewards, [0.5, 0.5], { ...options, advantageScale: "batch" }).flat(), [1, -1]);
});

test("a trajectory's weight is divided equally among its rewarded turns, however many", () => {
  // weights 0.25, 0.25 and 0.5; mean 0.25*1 + 0.25*0.5 = 0.375
  // variance 0.25*0.625^2 + 0.25*0.125^2 + 0.5*0.375^2 = 0.097656 + 0.003906 + 0.070313 = 0.171875; std 0.414578
  // 0.625/0.414578 = 1.507557, 0.125/0.414578 = 0.301511, -0.375/0.414578 = -0.904534
  const [first, second] = turnOffsets(
    [
      [1, 0.5],
      [null, 0],
    ],
    [0.5, 0.5],
    options,
  );
  close(first, [1.507557, 0.301511]);
  close(second, [0, -0.904534]);
});

test("equal turn rewards, or none at all, give offsets of 0", () => {
  expect(turnOffsets([[0.4, 0.4], [0.4]], [0.5, 0.5], options)).toEqual([[0, 0], [0]]);
  expect(turnOffsets([[null, null], []], [0.5, 0.5], options)).toEqual([[0, 0], []]);
});

test("the offsets of a group sum to 0 under its weights, and are proportional to turnWeight", () => {
  const reward = fc.option(
    fc.integer({ min: 0, max: 4 }).map((n) => n / 4),
    { nil: null },
  );
  const turns = fc.array(fc.array(reward, { minLength: 1, maxLength: 4 }), { minLength: 2, maxLength: 5 });
  fc.assert(
    fc.property(turns, (rewards_N) => {
      const weights_N = rewards_N.map((_, i) => i + 1);
      const offsets_N = turnOffsets(rewards_N, weights_N, options);
      const sum = offsets_N.reduce((total, offsets, i) => {
        const count = (rewards_N[i] ?? []).filter((one) => one !== null).length;
        return total + offsets.reduce((a, b) => a + b, 0) * ((weights_N[i] ?? 0) / Math.max(1, count));
      }, 0);
      expect(sum).toBeCloseTo(0, 6);
      const twice = turnOffsets(rewards_N, weights_N, { ...options, turnWeight: 2 });
      expect(twice).toEqual(offsets_N.map((offsets) => offsets.map((one) => 2 * one)));
    }),
  );
});

const scored = (
  reward: number,
  turns: TurnRewards,
  calls: readonly (readonly [number, TurnRewards])[] = [],
): RolloutScore => ({
  ...{ reward, correct: reward, wellFormed: true, tokens: 1, turns: [...turns] },
  invocations: {
    s: calls.map(([own, rewarded], i) => ({ id: `${i}`.repeat(22), reward: own, expert: 0, turns: [...rewarded] })),
  },
});

test("turns are compared within one agent, a sub-agent's with their aligned weights; with turnWeight 0 they give no signal", () => {
  const group = {
    0: scored(
      1,
      [1, null],
      [
        [1, [1]],
        [1, [0]],
      ],
    ),
    1: scored(1, [0, null], [[1, [0]]]),
  };
  const { main, s } = finalizeGroup(group, "main", ["s"], options, [1]);
  expect(main).toMatchObject({
    std: 0,
    advantages: [0, 0],
    turns: [
      [1, 0],
      [-1, 0],
    ],
  });
  // weights 0.25, 0.25, 0.5; mean 0.25; variance 0.25*0.75^2 + 0.75*0.25^2 = 0.1875; std 0.433013; 0.75/std = 1.732051, -0.25/std = -0.577350
  close(s?.turns?.flat(), [1.732051, -0.57735, -0.57735]);
  expect(hasSignal(main)).toBe(true);
  const off = finalizeGroup(group, "main", ["s"], { ...options, turnWeight: 0 }, [1]);
  expect(off["main"]).not.toHaveProperty("turns");
  expect(hasSignal(off["main"])).toBe(false);
});

test("a conversation without turn rewards gets no offsets and does not change those of the others", () => {
  const unrewarded: RolloutScore = {
    ...{ reward: 1, correct: 1, wellFormed: true, tokens: 1 },
    invocations: { s: [{ id: "0".repeat(22), reward: 1, expert: 0 }] },
  };
  const group = { 0: scored(1, [1, 0], [[1, [1, 0]]]), 1: unrewarded };
  const { main, s } = finalizeGroup(group, "main", ["s"], options, [1]);
  expect(main?.turns).toEqual([[1, -1], []]);
  expect(s?.turns).toEqual([[1, -1], []]);
});

test("a turn's offset reaches each of its tokens; offsets for another number of turns are refused", () => {
  const trajectory = { agent: "s", version: 0, tokens: [1, 2, 3, 4, 5], logProbs: [-1, -1, -1] };
  const actions: [number, number][] = [
    [1, 3],
    [4, 5],
  ];
  expect(spreadTurns({ ...trajectory, actions }, [0.5, -2])).toEqual([0.5, 0.5, -2]);
  expect(() => spreadTurns({ ...trajectory, actions }, [0.5])).toThrow(/1 turns were rewarded, not 2/);
  const batch: AgentBatch = {
    ...{ trajectories: [0, 1], weights: [0.5], advantages: [1, -1], turns: [[0.5, 0], []] },
    ...{ mean: 0, std: 1, duplicated: 0, dropped: 0 },
  };
  expect(lossTerms(batch, [2, 2], options)).toEqual([
    { advantage: 1, tokenWeight: 0.25, turns: [0.5, 0] },
    { advantage: -1, tokenWeight: 0.25 },
  ]);
});
