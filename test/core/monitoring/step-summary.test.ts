/** @file The summary of a step's records, worked by hand. */
import { expect, test } from "vitest";
import type { GroupRecord } from "../../../core/contracts/records.ts";
import { StepSummary, summarizeStep } from "../../../core/monitoring/step-summary.ts";
import { config, groups, manifests, step } from "../../cli/records.ts";

const byAgent = new Map(manifests.map((manifest) => [manifest.agent, manifest]));

test("means, shares, counts and histograms leave the lost rollout out", () => {
  const summary = summarizeStep(config, step, groups, byAgent, 2);
  expect(StepSummary.parse(summary)).toEqual(summary);
  // main: (1 + 0.1 + 1) / 3; searcher: (0.9 + 0.5 + 1) / 3
  expect(summary.reward["main"]).toBeCloseTo(0.7, 12);
  expect(summary.reward["searcher"]).toBeCloseTo(0.8, 12);
  expect(summary.correct).toBeCloseTo(2 / 3, 12);
  expect(summary).toMatchObject({ rollouts: 3, excluded: 1, groups: 2, wellFormed: 1, sampledTokens: 30 });
  // d_k of the three counted rollouts: 2, 0, 1
  expect(summary.calls).toEqual({ searcher: [1, 1, 1] });
  expect(summary.dropped).toEqual({ searcher: 1 });
  // The second group was not finalized for the main agent: nothing to learn from it.
  expect(summary.zeroVariance).toBe(1);
  // 60 action tokens of main, none of searcher, in 2 s.
  expect(summary.tokensPerSecond).toBe(30);
  expect(summary.training["searcher"]).toBeNull();
});

test("the cost of judges is summed over the counted rollouts, is unknown if that of one is, and is absent if no model judged any", () => {
  const cost = (usd: number | null) => ({ inputTokens: 100, outputTokens: 10, usd });
  const scored = { reward: 1, correct: 1, wellFormed: true, tokens: 10, invocations: {} };
  const judgedBy = (...usd: (number | null)[]) =>
    summarizeStep(
      config,
      step,
      groups.slice(0, 1).map((group) => ({
        ...group,
        rollouts: Object.fromEntries(usd.map((each, k) => [k, { ...scored, judged: cost(each) }])),
      })),
      byAgent,
      1,
    ).judged;
  expect(judgedBy(0.25, 0.5)).toEqual({ inputTokens: 200, outputTokens: 20, usd: 0.75 });
  expect(judgedBy(0.25, null)?.usd).toBeNull();
  expect(summarizeStep(config, step, groups, byAgent, 1)).not.toHaveProperty("judged");
});

test("a step of unknown duration has no speed, and a sub-agent without calls no reward", () => {
  const uncalled = groups.map((group) => ({
    ...group,
    rollouts: { "0": { reward: 0, correct: 0, wellFormed: false, tokens: 10, invocations: {} } },
  }));
  const summary = summarizeStep(config, step, uncalled, byAgent, null);
  expect(summary).toMatchObject({
    seconds: null,
    tokensPerSecond: null,
    reward: { main: 0, searcher: null },
    wellFormed: 0,
  });
  expect(summary.calls).toEqual({ searcher: [2] });
});

test("invocations below a truncated conversation under `overlong: mask`, whose rewards are unknown, are left out of the mean reward", () => {
  const call = (letter: string, reward: number) => ({ id: letter.repeat(22), reward, expert: 0 });
  const known = { reward: 1, correct: 1, wellFormed: true, tokens: 10 };
  const rollouts: GroupRecord["rollouts"] = {
    // Its second call was made by a truncated sub-agent.
    "0": { ...known, invocations: { searcher: [call("a", 0.6), { ...call("b", 0.1), masked: "caller" }] } },
    // The main agent was truncated.
    "1": {
      ...known,
      reward: 0,
      correct: 0,
      wellFormed: false,
      masked: true,
      invocations: { searcher: [call("c", 0.1)] },
    },
  };
  const masked = groups.slice(0, 1).map((group) => ({ ...group, rollouts }));
  expect(summarizeStep(config, step, masked, byAgent, 1).reward).toEqual({ main: 0.5, searcher: 0.6 });
});
