/** @file Laws of group-relative advantages (eq 9-10, 12-13). */
import fc from "fast-check";
import { expect, test } from "vitest";
import { batchStd, groupAdvantages } from "../../../core/mgrpo/advantage.ts";

const options = { advantageScale: "std", epsilon: 1e-6 } as const;
const member = fc.record({
  reward: fc.integer({ min: 0, max: 1000 }).map((n) => n / 1000),
  weight: fc.integer({ min: 1, max: 50 }).map((n) => n / 50),
});
const group = fc.array(member, { minLength: 2, maxLength: 20 });
const normalize = (
  members: { reward: number; weight: number }[],
  given: Parameters<typeof groupAdvantages>[2] = options,
) =>
  groupAdvantages(
    members.map(({ reward }) => reward),
    members.map(({ weight }) => weight),
    given,
  );

test("by hand: rewards 1, 0.1, 0.1, equal weights", () => {
  // mean = 1.2/3 = 0.4; deviations 0.6, -0.3, -0.3; variance = (0.36 + 0.09 + 0.09)/3 = 0.18 (population); std = 0.424264
  // advantages = 0.6/0.424264 = 1.414214, -0.3/0.424264 = -0.707107
  const { advantages_N, mean, std } = groupAdvantages([1, 0.1, 0.1], [1, 1, 1], { ...options, epsilon: 1e-12 });
  expect(mean).toBeCloseTo(0.4, 12);
  expect(std).toBeCloseTo(Math.sqrt(0.18), 12);
  expect(advantages_N[0]).toBeCloseTo(Math.SQRT2, 9);
  expect(advantages_N[1]).toBeCloseTo(-Math.SQRT1_2, 9);
});

test("epsilon is added to std, not to the variance", () => {
  // rewards 1 and 0: mean 0.5, std 0.5; with epsilon 0.5 the advantage is 0.5 / (0.5 + 0.5)
  expect(groupAdvantages([1, 0], [1, 1], { ...options, epsilon: 0.5 }).advantages_N).toEqual([0.5, -0.5]);
});

test("weighted advantages sum to 0 and have variance 1, up to epsilon", () => {
  fc.assert(
    fc.property(group, (members) => {
      const { advantages_N, std } = normalize(members);
      const total = members.reduce((sum, { weight }) => sum + weight, 0);
      const moment = (p: number) =>
        members.reduce((sum, { weight }, i) => sum + (weight / total) * (advantages_N[i] ?? 0) ** p, 0);
      expect(moment(1)).toBeCloseTo(0, 9);
      expect(moment(2)).toBeCloseTo(std === 0 ? 0 : (std / (std + options.epsilon)) ** 2, 6);
    }),
  );
});

test("scaling or shifting all rewards (epsilon aside), or scaling all weights, changes no advantage", () => {
  const tiny = { ...options, epsilon: 1e-15 };
  fc.assert(
    fc.property(group, fc.integer({ min: 1, max: 9 }), fc.integer({ min: -3, max: 3 }), (members, scale, shift) => {
      const before = normalize(members, tiny).advantages_N;
      const moved = members.map(({ reward, weight }) => ({ reward: scale * reward + shift, weight: weight * scale }));
      normalize(moved, tiny).advantages_N.forEach((advantage, i) => {
        expect(advantage).toBeCloseTo(before[i] ?? Number.NaN, 6);
      });
    }),
  );
});

test("the order of a group does not change its advantages", () => {
  fc.assert(
    fc.property(group, (members) => {
      const forward = normalize(members).advantages_N;
      const backward = normalize([...members].reverse()).advantages_N.reverse();
      forward.forEach((advantage, i) => {
        expect(advantage).toBeCloseTo(backward[i] ?? Number.NaN, 9);
      });
    }),
  );
});

test("a weight of m gives the same mean and std as m copies", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(member, fc.integer({ min: 1, max: 4 })), { minLength: 2, maxLength: 8 }), (drawn) => {
      const distinct = normalize(drawn.map(([{ reward }, copies]) => ({ reward, weight: copies })));
      const copied = normalize(drawn.flatMap(([{ reward }, copies]) => new Array(copies).fill({ reward, weight: 1 })));
      expect(distinct.mean).toBeCloseTo(copied.mean, 12);
      expect(distinct.std).toBeCloseTo(copied.std, 12);
    }),
  );
});

test("a reward of weight 0 changes no other's advantage", () => {
  const dropped = fc.record({ reward: member.map(({ reward }) => reward), weight: fc.constant(0) });
  const leaveOneOut = { ...options, baseline: "leave-one-out" } as const;
  fc.assert(
    fc.property(group, dropped, fc.constantFrom(options, leaveOneOut), (members, extra, given) => {
      const { advantages_N, mean, std } = normalize([...members, extra], given);
      expect({ advantages_N: advantages_N.slice(0, -1), mean, std }).toEqual(normalize(members, given));
    }),
  );
  // The weighted mean of five rewards of 0.1 is 0.10000000000000002: rounding must not become a signal.
  const same = groupAdvantages([0.1, 0.1, 0.1, 0.1, 0.1, 0.9], [0.2, 0.2, 0.2, 0.2, 0.2, 0], options);
  expect(same).toMatchObject({ advantages_N: [0, 0, 0, 0, 0, 0], std: 0 });
  expect(groupAdvantages([0.1, 0.9], [1, 0], leaveOneOut).advantages_N[0]).toBe(0);
});

test("without variance, all advantages are exactly 0, not the raw reward and not amplified rounding", () => {
  fc.assert(
    fc.property(fc.double({ min: 0, max: 1, noNaN: true }), fc.integer({ min: 2, max: 9 }), (reward, K) => {
      for (const advantageScale of ["std", "none"] as const) {
        const weights = new Array(K).fill(1 / K);
        const result = groupAdvantages(new Array(K).fill(reward), weights, { ...options, advantageScale });
        expect(result.advantages_N).toEqual(new Array(K).fill(0));
        expect(result.std).toBe(0);
      }
    }),
  );
  // 0.1 + 0.2 is not 0.3 in floating point; divided by std + epsilon, the difference must not become a signal.
  expect(groupAdvantages([0.1 + 0.2, 0.3], [1, 1], { ...options, epsilon: 1e-17 }).advantages_N).toEqual([0, 0]);
});

test("advantageScale none (Dr. GRPO): only the mean is subtracted", () => {
  expect(groupAdvantages([1, 0, 0, 0], [1, 1, 1, 1], { ...options, advantageScale: "none" }).advantages_N).toEqual([
    0.75, -0.25, -0.25, -0.25,
  ]);
});

const rloo = { baseline: "leave-one-out", advantageScale: "none", epsilon: 1e-6 } as const;

test("leave-one-out (RLOO) by hand: the mean of the other rewards is subtracted", () => {
  // rewards 1, 0.4, 0.1: 1 - (0.4 + 0.1)/2 = 0.75; 0.4 - (1 + 0.1)/2 = -0.15; 0.1 - (1 + 0.4)/2 = -0.6
  const { advantages_N, mean } = groupAdvantages([1, 0.4, 0.1], [1, 1, 1], rloo);
  expect(advantages_N).toEqual([0.75, -0.15, -0.6].map((value) => expect.closeTo(value, 12)));
  expect(mean).toBeCloseTo(0.5, 12);
});

test("with equal weights, a leave-one-out advantage is K/(K-1) times the deviation from the mean", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 100 }), { minLength: 2, maxLength: 12 }), (rewards) => {
      const equal = rewards.map(() => 1);
      const centered = groupAdvantages(rewards, equal, { ...rloo, baseline: "group" }).advantages_N;
      groupAdvantages(rewards, equal, rloo).advantages_N.forEach((advantage, i) => {
        expect(advantage).toBeCloseTo(((centered[i] ?? 0) * rewards.length) / (rewards.length - 1), 9);
      });
    }),
  );
});

test("leave-one-out leaves out a rollout's trajectories together, and takes the weighted mean of the others", () => {
  // Rollout 0 has rewards 1 and 0.5, rollout 1 has 0.2, rollout 2 has 0.8 with weight 2. Without rollout 0: (0.2 + 2*0.8)/3 = 0.6.
  const [rewards, weights, rollouts] = [
    [1, 0.5, 0.2, 0.8],
    [0.5, 0.5, 1, 2],
    [0, 0, 1, 2],
  ] as const;
  const { advantages_N } = groupAdvantages(rewards, weights, rloo, rollouts);
  // Without rollout 1: (0.5 + 0.25 + 1.6)/3 = 0.783333. Without rollout 2: (0.5 + 0.25 + 0.2)/2 = 0.475.
  expect(advantages_N).toEqual([0.4, -0.1, -0.583333, 0.325].map((value) => expect.closeTo(value, 6)));
  // Another trajectory of the same rollout is not a baseline: with one rollout there is none.
  expect(groupAdvantages([1, 0.5], [1, 1], rloo, [0, 0]).advantages_N).toEqual([0, 0]);
});

test("a leave-one-out baseline does not depend on the rollout's own rewards; a group's mean does", () => {
  const baselineOf = (reward: number, baseline: "group" | "leave-one-out") =>
    reward - (groupAdvantages([reward, 0.3, 0.6], [1, 1, 1], { ...rloo, baseline }).advantages_N[0] ?? 0);
  expect(baselineOf(1, "leave-one-out")).toBeCloseTo(baselineOf(0, "leave-one-out"), 12);
  expect(baselineOf(1, "group")).not.toBeCloseTo(baselineOf(0, "group"), 3);
});

test("advantageScale batch only centers; the batch's standard deviation is that of all centered rewards", () => {
  const groups = [
    [1, 0, 0, 0],
    [1, 1, 0, 0],
    [0.5, 0.5, 0.5, 0.5],
  ];
  const found = groups.map((rewards) =>
    groupAdvantages(rewards, [1, 1, 1, 1], { ...options, advantageScale: "batch" }),
  );
  // Variances 3/16, 1/4 and 0: their mean is 7/48.
  expect(found[0]?.advantages_N).toEqual([0.75, -0.25, -0.25, -0.25]);
  expect(batchStd(found.map(({ std }) => std))).toBeCloseTo(Math.sqrt(7 / 48), 12);
  const all = found.flatMap(({ advantages_N }) => advantages_N);
  expect(Math.sqrt(all.reduce((sum, one) => sum + one ** 2, 0) / all.length)).toBeCloseTo(Math.sqrt(7 / 48), 12);
});
