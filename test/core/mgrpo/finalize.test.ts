/**
 * @file Finalizing a group: the trajectories of each agent, their weights and advantages, and what these depend on (the scores, the settings and
 * the stream's name).
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { AlgorithmConfig } from "../../../core/contracts/algorithm-config.ts";
import { AgentBatch, type RolloutScore } from "../../../core/contracts/records.ts";
import { align } from "../../../core/mgrpo/alignment.ts";
import { trajectoryWeights } from "../../../core/mgrpo/batch.ts";
import { finalizeGroup } from "../../../core/mgrpo/finalize.ts";
import { stream } from "../../../core/random.ts";

type Rollouts = Record<string, RolloutScore>;

const modes = ["resample", "weighted", "none"] as const;
const algorithm = (mode: (typeof modes)[number], d = 2) => AlgorithmConfig.parse({ alignment: { mode, d } });
const callId = (k: number, agent: string, i: number) => `${agent}-${k}-${i}`.padEnd(22, "_");

/** Scores of K rollouts with two sub-agents. */
const rollouts = fc
  .array(
    fc.record({
      excluded: fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
      reward: fc.integer({ min: 0, max: 10 }).map((n) => n / 10),
      searcher: fc.array(
        fc.integer({ min: 0, max: 10 }).map((n) => n / 10),
        { maxLength: 5 },
      ),
      reader: fc.array(
        fc.integer({ min: 0, max: 10 }).map((n) => n / 10),
        { maxLength: 3 },
      ),
    }),
    { minLength: 2, maxLength: 8 },
  )
  .map(
    (drawn): Rollouts =>
      Object.fromEntries(
        drawn.map(({ excluded, reward, searcher, reader }, k): [string, RolloutScore] => [
          String(k),
          excluded ? { excluded: "worker gone" } : scored(k, reward, { searcher, reader }),
        ]),
      ),
  );

function scored(k: number, reward: number, calls: Record<string, number[]>): Extract<RolloutScore, { reward: number }> {
  return {
    reward,
    correct: reward,
    wellFormed: true,
    tokens: 10,
    invocations: Object.fromEntries(
      Object.entries(calls).map(([agent, rewards]) => [
        agent,
        rewards.map((own, i) => ({ id: callId(k, agent, i), reward: own, expert: own })),
      ]),
    ),
  };
}

const weightsOf = (finalized: AgentBatch | undefined) => (finalized ? trajectoryWeights(finalized) : []);

test("every finalized batch fits the contract: weights sum to 1, weighted advantages to 0, trajectories are distinct and of this group", () => {
  fc.assert(
    fc.property(rollouts, fc.constantFrom(...modes), fc.nat(), (group, mode, seed) => {
      const finalized = finalizeGroup(group, "main", ["searcher", "reader"], algorithm(mode), [seed]);
      for (const [agent, record] of Object.entries(finalized)) {
        AgentBatch.parse(record);
        const { trajectories, advantages } = record;
        const weights = trajectoryWeights(record);
        expect(new Set(trajectories).size).toBe(trajectories.length);
        expect(weights.reduce((sum, weight) => sum + weight, 0)).toBeCloseTo(1, 9);
        expect(advantages.reduce((sum, advantage, i) => sum + advantage * (weights[i] ?? 0), 0)).toBeCloseTo(0, 6);
        for (const trajectory of trajectories) {
          const [k, i] = String(trajectory).split("/").map(Number);
          const score = group[String(k)] as ReturnType<typeof scored>;
          expect(agent === "main" ? score.reward : score.invocations[agent]?.[i ?? -1]).toBeDefined();
        }
      }
    }),
  );
});

test("without resampling, renumbering the rollouts changes no trajectory's weight or advantage, and neither mean nor std", () => {
  fc.assert(
    fc.property(rollouts, fc.constantFrom("weighted" as const, "none" as const), (group, mode) => {
      const last = Object.keys(group).length - 1;
      const renamed = Object.fromEntries(Object.entries(group).map(([k, score]) => [String(last - Number(k)), score]));
      const finalize = (given: Rollouts) => finalizeGroup(given, "main", ["searcher"], algorithm(mode), [1]);
      const [before, after] = [finalize(group), finalize(renamed)];
      expect(after["main"]?.trajectories.map((k) => last - Number(k))).toEqual(
        before["main"]?.trajectories.toReversed(),
      );
      for (const agent of Object.keys(before)) {
        expect(after[agent]?.mean).toBeCloseTo(before[agent]?.mean ?? Number.NaN, 12);
        expect(after[agent]?.std).toBeCloseTo(before[agent]?.std ?? Number.NaN, 12);
        for (const [at, id] of (before[agent]?.trajectories ?? []).entries()) {
          const [k, i] = String(id).split("/");
          const moved = agent === "main" ? last - Number(k) : `${last - Number(k)}/${i}`;
          const there = after[agent]?.trajectories.indexOf(moved) ?? -1;
          expect(after[agent]?.advantages[there]).toBeCloseTo(before[agent]?.advantages[at] ?? Number.NaN, 6);
          expect(weightsOf(after[agent])[there]).toBeCloseTo(weightsOf(before[agent])[at] ?? Number.NaN, 12);
        }
      }
    }),
  );
});

test("an excluded rollout changes nothing for any agent, as if it had never been planned", () => {
  fc.assert(
    fc.property(rollouts, fc.constantFrom(...modes), fc.nat(), (group, mode, seed) => {
      const finalize = (given: Rollouts) =>
        finalizeGroup(given, "main", ["searcher", "reader"], algorithm(mode), [seed]);
      const left = Object.fromEntries(Object.entries(group).filter(([, score]) => !("excluded" in score)));
      expect(finalize(group)).toEqual(finalize(left));
      if (Object.keys(left).length < 2) expect(finalize(group)).toEqual({});
      else expect(finalize(group)["main"]?.trajectories).toEqual(Object.keys(left).map(Number));
    }),
  );
});

test("one sub-agent's calls change nothing for the main agent or for another sub-agent", () => {
  fc.assert(
    fc.property(rollouts, fc.constantFrom(...modes), fc.nat(), (group, mode, seed) => {
      const finalize = (given: Rollouts) =>
        finalizeGroup(given, "main", ["searcher", "reader"], algorithm(mode), [seed]);
      const without = Object.fromEntries(
        Object.entries(group).map(([k, score]): [string, RolloutScore] => [
          k,
          "excluded" in score ? score : { ...score, invocations: { reader: score.invocations["reader"] ?? [] } },
        ]),
      );
      const { searcher: _gone, ...rest } = finalize(group);
      expect(finalize(without)).toEqual(rest);
    }),
  );
});

test("resample draws from the named stream: the same name gives the same draws, another name gives others", () => {
  const group: Rollouts = Object.fromEntries(
    [0, 1, 2, 3].map((k) => [String(k), scored(k, k / 4, { searcher: [0, 0.2, 0.4, 0.6, 0.8] })]),
  );
  const draw = (...stream: (string | number)[]) =>
    JSON.stringify(finalizeGroup(group, "main", ["searcher"], algorithm("resample"), stream)["searcher"]);
  expect(draw(1, "train", 0, 0)).toBe(draw(1, "train", 0, 0));
  expect(new Set([0, 1, 2, 3, 4].map((step) => draw(1, "train", step, 0))).size).toBeGreaterThan(1);
});

test("without alignment (the ablation), all calls have the same weight, so a rollout with more calls counts more", () => {
  const group: Rollouts = { 0: scored(0, 1, { searcher: [1] }), 1: scored(1, 0, { searcher: [0, 0, 0] }) };
  const none = finalizeGroup(group, "main", ["searcher"], algorithm("none"), [1])["searcher"];
  expect(weightsOf(none)).toEqual([0.25, 0.25, 0.25, 0.25]);
  expect(none?.mean).toBeCloseTo(0.25);
  const weighted = finalizeGroup(group, "main", ["searcher"], algorithm("weighted"), [1])["searcher"];
  expect(weighted?.mean).toBeCloseTo(0.5);
});

test("a sub-agent without calls is absent; a group with fewer than two remaining rollouts has no agents", () => {
  const group: Rollouts = { 0: scored(0, 1, {}), 1: scored(1, 0, {}) };
  expect(Object.keys(finalizeGroup(group, "main", ["searcher"], algorithm("resample"), [1]))).toEqual(["main"]);
  const oneLeft: Rollouts = { 0: scored(0, 1, { searcher: [1, 0] }), 1: { excluded: "judge" } };
  expect(finalizeGroup(oneLeft, "main", ["searcher"], algorithm("resample"), [1])).toEqual({});
});

test("the calls of a masked rollout count for no sub-agent: whether the main agent would have been correct is unknown", () => {
  const call = (letter: string, reward: number, expert: number) => ({ s: [{ id: letter.repeat(22), reward, expert }] });
  const weighted = AlgorithmConfig.parse({ alignment: { mode: "weighted", d: 2 }, overlong: "mask", epsilon: 1e-12 });
  const group: Record<string, RolloutScore> = {
    0: { reward: 1, correct: 1, wellFormed: true, tokens: 1, invocations: call("a", 1, 1) }, // 0.1 + 0.4*1 + 0.5*1
    1: { reward: 0.1, correct: 0, wellFormed: true, tokens: 1, invocations: call("b", 0.1, 0) }, // 0.1 + 0 + 0
    // Truncated: if the answer were known, the reward of its call would be 1 or 0.6.
    2: { reward: 0, correct: 0, wellFormed: false, tokens: 1, masked: true, invocations: call("c", 0.6, 1) },
  };
  // Two calls count: mean (1 + 0.1)/2 = 0.55, std 0.45, advantages (1 - 0.55)/0.45 = 1 and -1.
  const { s } = finalizeGroup(group, "main", ["s"], weighted, [1, "train", 0, 0]);
  expect(s).toMatchObject({ trajectories: ["0/0", "1/0"], weights: [0.5], advantages: [1, -1] });
  expect(s?.mean).toBeCloseTo(0.55, 12);
  expect(s?.std).toBeCloseTo(0.45, 12);
});

test("a masked trajectory counts in mean and std but is not trained on; its share goes to the others", () => {
  const group: Rollouts = {
    0: scored(0, 1, {}),
    1: scored(1, 0.5, {}),
    2: { ...scored(2, 0, {}), masked: true },
  };
  const main = finalizeGroup(group, "main", [], algorithm("resample"), [1])["main"];
  expect(main?.trajectories).toEqual([0, 1]);
  expect(weightsOf(main)).toEqual([0.5, 0.5]);
  expect(main?.mean).toBeCloseTo(0.5);
  // Rewards 1, 0.5 and 0: variance (0.25 + 0 + 0.25) / 3 = 1/6.
  expect(main?.std).toBeCloseTo(Math.sqrt(1 / 6));
  expect(main?.advantages[1]).toBeCloseTo(0);
  const all = Object.fromEntries(Object.entries(group).map(([k, score]) => [k, { ...score, masked: true as const }]));
  expect(finalizeGroup(all, "main", [], algorithm("resample"), [1])).toEqual({});
});

test("leave-one-out compares a sub-agent's calls with those of other rollouts only", () => {
  const group: Rollouts = { 0: scored(0, 1, { searcher: [1, 0.5] }), 1: scored(1, 0, { searcher: [0.2] }) };
  const options = { ...algorithm("weighted"), baseline: "leave-one-out", advantageScale: "none" } as const;
  const { main, searcher } = finalizeGroup(group, "main", ["searcher"], options, [1]);
  expect(main?.advantages).toEqual([1, -1]);
  // 1 - 0.2, 0.5 - 0.2, 0.2 - (1 + 0.5)/2
  expect(searcher?.advantages).toEqual([0.8, 0.3, -0.55]);
});

test("a sub-agent's own d applies to that sub-agent alone", () => {
  const calls = { searcher: [1, 0, 1, 0], reader: [0, 1, 0, 1] };
  const group: Rollouts = { 0: scored(0, 1, calls), 1: scored(1, 0, calls) };
  const own = { searcher: { algorithm: { alignment: { d: 3 } } } };
  const run = (agents: object) =>
    finalizeGroup(group, "main", ["searcher", "reader"], algorithm("resample", 4), [1], { ...agents });
  // Four calls each: none dropped at d = 4, one per rollout at d = 3.
  expect(run({})["searcher"]?.dropped).toBe(0);
  expect(run(own)["searcher"]?.dropped).toBe(2);
  expect(run(own)["reader"]).toEqual(run({})["reader"]);
  expect(run(own)["main"]).toEqual(run({})["main"]);
});

const control = (mode: (typeof modes)[number]) => ({ ...algorithm(mode), shuffleAdvantages: true });

test("shuffleAdvantages permutes main's advantages, keeps every weighted sum at 0, and changes no trajectory, weight or count", () => {
  fc.assert(
    fc.property(rollouts, fc.constantFrom(...modes), fc.nat(), (group, mode, seed) => {
      const agents = ["searcher", "reader"];
      const earned = finalizeGroup(group, "main", agents, algorithm(mode), [seed]);
      const shuffled = finalizeGroup(group, "main", agents, control(mode), [seed]);
      expect(Object.keys(shuffled)).toEqual(Object.keys(earned));
      const sorted = (values: readonly number[] = []) => [...values].sort((a, b) => a - b);
      sorted(shuffled["main"]?.advantages).forEach((advantage, i) => {
        expect(advantage).toBeCloseTo(sorted(earned["main"]?.advantages)[i] ?? Number.NaN, 6);
      });
      for (const [agent, { trajectories, weights, advantages, duplicated, dropped }] of Object.entries(shuffled)) {
        expect({ trajectories, weights, duplicated, dropped }).toMatchObject(
          Object.fromEntries(
            (["trajectories", "weights", "duplicated", "dropped"] as const).map((key) => [key, earned[agent]?.[key]]),
          ),
        );
        const shares = trajectoryWeights({ trajectories, weights });
        expect(advantages.reduce((sum, advantage, i) => sum + advantage * (shares[i] ?? 0), 0)).toBeCloseTo(0, 6);
        expect(advantages.every((advantage) => advantage === 0)).toBe(earned[agent]?.std === 0);
      }
    }),
  );
});

test("over many draws, shuffleAdvantages favors no trajectory; the same stream name gives the same draw", () => {
  const group: Rollouts = Object.fromEntries(
    [1, 0, 0, 0.1].map((reward, k) => [String(k), scored(k, reward, { searcher: [reward, 1 - reward] })]),
  );
  const draw = (seed: number) => finalizeGroup(group, "main", ["searcher"], control("resample"), [seed, "train"]);
  expect(draw(1)).toEqual(draw(1));
  const draws = Array.from({ length: 4000 }, (_, seed) => draw(seed));
  expect(new Set(draws.map((one) => JSON.stringify(one["main"]))).size).toBeGreaterThan(4);
  for (const [agent, members] of [
    ["main", 4],
    ["searcher", 8],
  ] as const) {
    for (let i = 0; i < members; i++) {
      const mean = draws.reduce((sum, one) => sum + (one[agent]?.advantages[i] ?? 0), 0) / draws.length;
      // Advantages have variance 1: five standard errors.
      expect(Math.abs(mean)).toBeLessThan(5 / Math.sqrt(draws.length));
    }
  }
});

test("a masked call of a sub-agent counts in mean and std but is not trained on", () => {
  const { invocations, ...first } = scored(0, 1, { searcher: [1, 0] });
  const searcher = (invocations["searcher"] ?? []).map((call, i) =>
    i === 1 ? { ...call, masked: true as const } : call,
  );
  const group: Rollouts = { 0: { ...first, invocations: { searcher } }, 1: scored(1, 0, { searcher: [0.5] }) };
  const found = finalizeGroup(group, "main", ["searcher"], algorithm("weighted"), [1])["searcher"];
  // Weights 1/4, 1/4 (masked) and 1/2: mean 1/4 + 0 + 1/4 = 1/2, variance 1/4 * 1/4 + 1/4 * 1/4 + 0 = 1/8.
  // Without the masked call the shares are 1/3 and 2/3.
  expect(found?.trajectories).toEqual(["0/0", "1/0"]);
  expect(found?.mean).toBeCloseTo(0.5, 12);
  expect(found?.std).toBeCloseTo(Math.sqrt(1 / 8), 12);
  expect(weightsOf(found)).toEqual([expect.closeTo(1 / 3, 12), expect.closeTo(2 / 3, 12)]);
});

test("draws come from the streams `alignment` and `shuffle`, so a resumed run draws the same", () => {
  const rewards = [0, 0.2, 0.5, 0.9, 1];
  const group: Rollouts = { 0: scored(0, 1, { searcher: rewards }), 1: scored(1, 0, { searcher: [0.3, 0.4] }) };
  const aligned = align([5, 2], { mode: "resample", d: 2 }, (k) => stream(7, 3, "alignment", "searcher", k));
  const kept = aligned.weights.flatMap((weights, k) => weights.flatMap((w, i) => (w > 0 ? [`${k}/${i}`] : [])));
  const { searcher } = finalizeGroup(group, "main", ["searcher"], algorithm("resample"), [7, 3]);
  expect(searcher?.trajectories).toEqual(kept);

  const five: Rollouts = Object.fromEntries(rewards.map((reward, k) => [String(k), scored(k, reward, {})]));
  const { main } = finalizeGroup(five, "main", [], control("weighted"), [7, 3]);
  const order = stream(7, 3, "shuffle", "main").choose(5, 5);
  const shuffled = order.map((i) => rewards[i] ?? Number.NaN);
  const rankOf = (values: readonly number[]) => values.map((value) => [...values].sort((a, b) => a - b).indexOf(value));
  expect(rankOf(main?.advantages ?? [])).toEqual(rankOf(shuffled));
});
