/** @file The metrics of steps and evaluations: their values, and the absence of whatever was not measured. */
import { expect, test } from "vitest";
import { RunConfig } from "../../../core/contracts/config.ts";
import { evaluationMetrics, MetricLine, stepMetrics } from "../../../core/monitoring/metrics.ts";
import { summarizeStep } from "../../../core/monitoring/step-summary.ts";
import { config, groups, manifests, step } from "../../cli/records.ts";

const byAgent = new Map(manifests.map((one) => [one.agent, one]));

test("a step's metrics have the values of its summary, and are logged at the number of closed steps", () => {
  const summary = summarizeStep(config, step, groups, byAgent, 8);
  const measured = stepMetrics(summary);
  expect(MetricLine.parse({ ...measured, time: 0 })).toMatchObject({ step: summary.step + 1, source: "step" });
  const { metrics } = measured;
  expect(metrics["reward/main/mean"]).toBe(summary.reward["main"]);
  expect(metrics["group/zero_std_frac"]).toBe(summary.zeroVariance / summary.groups);
  expect(metrics["time/step"]).toBe(8);
  expect(metrics["train/main/kl"]).toBe(summary.training["main"]?.kl);
  const calls = summary.calls["searcher"] ?? [];
  const total = calls.reduce((sum, count) => sum + count, 0);
  expect(metrics["rollout/searcher/calls"]).toBe(calls.reduce((sum, count, i) => sum + i * count, 0) / total);
});

test("with staleness, the metrics include the age of each agent's rollouts and, for an agent that was trained, the shares of masked and truncated tokens", () => {
  const algorithm = { tisCap: 2, ratioMask: { low: 0.5, high: 2 } };
  const stale = RunConfig.parse({ ...config, staleness: 2, algorithm });
  const measured = { kl: 0.002, maskedFraction: 0.03, truncatedFraction: 0.01 };
  const corrected = manifests.map(
    (one) => [one.agent, { ...one, stats: one.stats && { ...one.stats, ...measured } }] as const,
  );
  // Step 5 trains version 5, on rollouts of version 3. The searcher learns nothing from it.
  const sixth = { ...step, step: 5, policy: { main: 3, searcher: 3 } };
  const { metrics } = stepMetrics(summarizeStep(stale, sixth, groups, new Map(corrected), 8));
  expect(metrics).toMatchObject({
    "train/main/staleness": 2,
    "train/main/masked_frac": 0.03,
    "train/main/truncated_frac": 0.01,
    "train/main/kl": 0.002,
  });
  const searcher = Object.entries(metrics).filter(([name]) => name.startsWith("train/searcher/"));
  expect(Object.fromEntries(searcher)).toEqual({ "train/searcher/staleness": 2 });
});

test("what was not measured is absent", () => {
  const summary = summarizeStep(config, step, groups, byAgent, null);
  const { metrics } = stepMetrics({ ...summary, reward: { main: null }, groups: 0 });
  const absent = ["time/step", "perf/tokens_per_s", "reward/main/mean", "group/zero_std_frac", "judge/usd"];
  expect(absent.filter((name) => name in metrics)).toEqual([]);
});

test("a step whose rollouts were all lost has no metric of correctness, format, tokens or reward", () => {
  const lost = groups.map((group) => ({
    ...group,
    rollouts: Object.fromEntries(Object.keys(group.rollouts).map((k) => [k, { excluded: "lost" }])),
  }));
  const { metrics } = stepMetrics(summarizeStep(config, step, lost, byAgent, 8));
  expect(metrics["rollout/lost"]).toBeGreaterThan(0);
  const absent = ["rollout/correct", "rollout/well_formed", "rollout/tokens", "reward/main/mean"];
  expect(absent.filter((name) => name in metrics)).toEqual([]);
});

test("an evaluation's metrics are logged at its team's step", () => {
  const interval = { low: 0.4, high: 0.6 };
  const evaluation = {
    team: 15,
    suite: "held-out",
    temperature: 1,
    closedBook: false,
    n: 4,
    correct: 2,
    runs: [],
    interval,
  };
  expect(evaluationMetrics(evaluation)).toEqual({
    step: 15,
    source: "eval/held-out",
    metrics: {
      "eval/held-out/n": 4,
      "eval/held-out/success": 0.5,
      "eval/held-out/success_low": 0.4,
      "eval/held-out/success_high": 0.6,
    },
  });
  expect(evaluationMetrics({ ...evaluation, n: 0, correct: 0 }).metrics).toEqual({ "eval/held-out/n": 0 });
});
