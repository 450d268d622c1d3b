/** @file The dashboard's comparison: which runs are seeds of one arm, their differences with intervals, and curves over any axis. */
import { expect, test } from "vitest";
import { heldOutGains } from "../../cli/held-out-gains.ts";
import { caseStudyResults } from "../../cli/held-out-scores.ts";
import { readEvaluationScores } from "../../cli/local/held-out-rollouts.ts";
import type { Source } from "../../cli/show/source.ts";
import { compareView } from "../../cli/ui/compare.ts";
import { RunConfig } from "../../core/contracts/config.ts";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import type { StepSummary } from "../../core/monitoring/step-summary.ts";
import { evaluationOf } from "../../core/monitoring/team-evaluation.ts";
import { comparedCharts } from "../../ui/app/parts/comparison.ts";
import { CompareView } from "../../ui/compare-view.ts";
import type { RunView } from "../../ui/views.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { config, job } from "./records.ts";

const QUESTIONS = ["q1", "q2", "q3", "q4"];

/** A run whose untrained team answers `before` of the questions correctly, and its team after two steps `after`. */
async function sourceOf(run: string, change: object, before: number, after: number, asked = { sampled: QUESTIONS }) {
  const suites = Object.keys(asked).map((name) => ({ name }));
  const own = RunConfig.parse({ ...config, run, steps: 2, evaluation: { suites }, ...change });
  const store = memoryStore();
  const evaluations = [];
  for (const suite of own.evaluation.suites) {
    const questions = Object.entries(asked).find(([name]) => name === suite.name)?.[1] ?? [];
    for (const [team, correct] of [
      [0, before],
      [2, after],
    ] as const) {
      const record = { ...job(suite.name, team, correct), run, n: questions.length };
      const { interval, ...flat } = record;
      await store.table.insert(tableKeys.job(run, record.job), { ...flat, interval: { ...interval } });
      const scores = questions.map((question, i) => ({ question, kind: "hop1", n: 1, correct: i < correct ? 1 : 0 }));
      const score = { n: record.n, correct, runs: record.runs, interval };
      const result = {
        run,
        job: record.job,
        team,
        suite: suite.name,
        lost: [],
        ...score,
        questions: scores,
        seconds: 1,
      };
      const bytes = new TextEncoder().encode(JSON.stringify(result));
      await store.objects.commit(objectKeys.evaluation(run, record.job), bytes);
      evaluations.push(evaluationOf(suite, record));
    }
  }
  const source: Source = {
    ...{ config: own, state: "finished", reason: "", step: 2, evaluations, folder: "." },
    summaries: async () => [],
    read: (read) => read(store),
  };
  return source;
}

const otherRate = {
  agents: { ...config.agents, main: { ...config.agents["main"], optimizer: { learningRate: 0.5 } } },
};

test("seeds of one config are one arm; the differences are paired by seed and question", async () => {
  const view = await compareView([
    await sourceOf("a1", { seed: 1 }, 1, 2),
    await sourceOf("a2", { seed: 2 }, 1, 3),
    await sourceOf("b1", { seed: 1, ...otherRate }, 1, 4),
    await sourceOf("a1-again", { seed: 1 }, 1, 2),
  ]);
  expect(CompareView.parse(view).leftOut).toEqual([]);
  expect(view.arms.map(({ label, runs }) => [label, runs])).toEqual([
    ["atlas mgrpo", ["a1", "a2"]],
    ["atlas mgrpo, agents.main.optimizer.learningRate=0.5", ["b1"]],
    ["atlas mgrpo, a1-again", ["a1-again"]],
  ]);
  const [first, second] = view.arms.map(({ measured }) => measured[0] ?? expect.fail());
  // a: 2 of 8 before, 5 of 8 after. b: 1 of 4 before, 4 of 4 after; of seed 1, a answers 2 of 4.
  expect(first).toMatchObject({
    suite: "sampled",
    before: { value: 0.25 },
    after: { value: 0.625 },
    againstFirst: null,
    scored: 2,
  });
  expect(first?.gain?.value).toBeCloseTo(0.375, 12);
  expect(second?.gain?.value).toBeCloseTo(0.75, 12);
  expect(second?.againstFirst?.value).toBeCloseTo(0.5, 12);
  const { low = 0, high = 0 } = second?.againstFirst ?? {};
  expect([low < 0.5, high > 0.5]).toEqual([true, true]);
});

test("a benchmark's scores are compared as those of held-out questions are; case studies are not measured on it", async () => {
  const suites = [{ name: "sampled", benchmark: "jsonl", data: "questions.jsonl" }];
  const own = (run: string, seed: number, after: number) => sourceOf(run, { seed, evaluation: { suites } }, 1, after);
  const source = await own("a1", 1, 2);
  const { arms } = await compareView([source, await own("a2", 2, 3)]);
  expect(arms[0]?.measured).toMatchObject([{ suite: "sampled", before: { value: 0.25 }, after: { value: 0.625 } }]);
  const study = { name: "care", expected: "care is taken", checks: () => expect.fail() };
  const scores = await source.read((store) => readEvaluationScores(store, source.config, 2, [study]));
  expect(scores.map(({ team }) => team)).toEqual([0, 2]);
  expect(heldOutGains("a1", scores, 2)).toMatchObject([{ suite: "sampled", gain: 0.25 }]);
  expect(caseStudyResults(scores, 2, [study])).toEqual([]);
});

test("the scores of an arm's finished seeds are shown although its first seed has none yet", async () => {
  const unfinished = { ...(await sourceOf("a1", { seed: 1 }, 1, 2)), evaluations: [] };
  const { arms } = await compareView([unfinished, await sourceOf("a2", { seed: 2 }, 1, 3)]);
  expect(arms[0]?.measured).toMatchObject([{ suite: "sampled", after: { value: 0.75 }, scored: 1 }]);
});

test("a run whose untrained team alone is evaluated has no scores after training", async () => {
  const { evaluations, ...source } = await sourceOf("a1", {}, 1, 2);
  const untrained = evaluations.filter(({ team }) => team === 0);
  const view = await compareView([{ ...source, state: "running", step: 0, evaluations: untrained }]);
  expect(view.arms[0]?.measured).toMatchObject([{ before: { value: 0.25 }, after: null, gain: null, scored: 0 }]);
});

test("a label truncates a long value, such as a system message, and stays unique", async () => {
  const instructed = (system: string) => ({ agents: { ...config.agents, main: { ...config.agents["main"], system } } });
  const { arms } = await compareView([
    await sourceOf("a1", {}, 1, 2),
    await sourceOf("b1", instructed("x".repeat(500)), 1, 2),
    await sourceOf("c1", instructed(`${"x".repeat(500)}y`), 1, 2),
  ]);
  const label = `atlas mgrpo, agents.main.system="${"x".repeat(38)}…`;
  expect(arms.map((arm) => arm.label)).toEqual(["atlas mgrpo", label, `${label}, c1`]);
});

test("arms that differ beyond the settings that a label names have labels of their own", async () => {
  const larger = { questionsPerStep: 4, rolloutsPerQuestion: 4 };
  const view = await compareView([
    await sourceOf("a1", {}, 1, 2),
    await sourceOf("b1", larger, 1, 2),
    await sourceOf("c1", { ...larger, ...otherRate }, 1, 2),
  ]);
  const label = "atlas mgrpo, questionsPerStep=4, rolloutsPerQuestion=4";
  expect(view.arms.map((arm) => arm.label)).toEqual(["atlas mgrpo", label, `${label}, c1`]);
});

test("a recipe that is a folder is named without the folders above it, even if its path ends with a slash", async () => {
  const view = await compareView([await sourceOf("a1", { recipe: "./recipes/mine/" }, 1, 2)]);
  expect(view.arms.map(({ label }) => label)).toEqual(["mine mgrpo"]);
});

test("a suite on which runs were asked different questions is left out, with a reason; the others are compared", async () => {
  const asked = (sampled: string[]) => ({ sampled, fixed: QUESTIONS });
  const view = await compareView([
    await sourceOf("a1", {}, 1, 2, asked(QUESTIONS)),
    await sourceOf("b1", otherRate, 1, 2, asked(QUESTIONS.map((id) => `other-${id}`))),
  ]);
  expect(view.leftOut).toEqual([
    expect.stringMatching(/^suite sampled: runs 'a1' and 'b1' were asked different questions/),
  ]);
  expect(view.arms.map(({ measured }) => measured.map(({ suite }) => suite))).toEqual([["fixed"], ["fixed"]]);
});

/** A run with these rewards, whose steps take `seconds` and cost `usd` each. */
const curve = (run: string, rewards: readonly number[], seconds: number | null, usd?: number): RunView => {
  const perStep = rewards.map((reward, step) => ({
    ...{ step, seconds, reward: { main: reward }, sampledTokens: 100 },
    ...(usd !== undefined && { usd: usd * (step + 1) }),
  })) as unknown as StepSummary[];
  return { run, perStep, agents: [{ name: "main" }] } as unknown as RunView;
};

test("the curve of an arm is the mean of its seeds, in a band from the lowest to the highest", () => {
  const runs = [curve("a1", [0.2, 0.2, 0.2], 1), curve("a2", [0.6, 0.6], 1)];
  const arms = [{ label: "arm", runs: ["a1", "a2"], measured: [] }];
  const { charts } = comparedCharts(runs, arms, "step", true);
  const [line = expect.fail()] = charts[0]?.lines ?? [];
  // The mean ends where the shorter curve ends: a2 has two steps.
  expect(line.points.map(([x]) => x)).toEqual([1, 2]);
  for (const [, y] of line.points) expect(y).toBeCloseTo(0.4, 12);
  expect(line.band).toEqual([1, 2].map((x) => [x, 0.2, 0.6]));
  expect(comparedCharts(runs, arms, "step", false).charts[0]?.lines.map(({ name, band }) => [name, band])).toEqual([
    ["a1", undefined],
    ["a2", undefined],
  ]);
});

test("seeds that do not overlap on the axis are averaged at one point, where the later one begins", () => {
  const runs = [curve("a1", [0.2, 0.2], 1), curve("a2", [0.6, 0.6], 5)];
  const arms = [{ label: "arm", runs: ["a1", "a2"], measured: [] }];
  const [line = expect.fail()] = comparedCharts(runs, arms, "seconds", true).charts[0]?.lines ?? [];
  // a1 ends after 2 seconds; a2 begins after 5.
  expect(line.points).toEqual([[5, expect.closeTo(0.4, 12)]]);
  expect(line.band).toEqual([[5, 0.2, 0.6]]);
});

test("the mean of the seeds ends with their last values, even if the x values of its points are rounded", () => {
  // In floating point, 3 * end / 3 is less than this end: 3 * end is rounded down.
  const end = 1 - Number.EPSILON;
  const dollars = [0, 0.25, 0.5, end];
  const priced = (run: string): RunView => {
    const { perStep, ...rest } = curve(run, [0, 0, 0, 1], 1);
    return { ...rest, perStep: perStep.map((step, i) => ({ ...step, usd: dollars[i] ?? 0 })) };
  };
  const runs = [priced("a1"), priced("a2")];
  const arms = [{ label: "arm", runs: ["a1", "a2"], measured: [] }];
  const last = (merged: boolean) => comparedCharts(runs, arms, "usd", merged).charts[0]?.lines[0]?.points.at(-1);
  expect(last(false)?.[0]).toBe(end);
  expect(last(true)).toEqual(last(false));
});

test("curves are over tokens, seconds or dollars; a run that has no such measurements is left out", () => {
  const runs = [curve("a1", [0, 1], 10, 0.25), curve("a2", [0, 1], null)];
  const arms = [{ label: "arm", runs: ["a1", "a2"], measured: [] }];
  const xs = (axis: "tokens" | "seconds" | "usd") => {
    const { charts, omitted } = comparedCharts(runs, arms, axis, false);
    return [charts[0]?.lines.map(({ points }) => points.map(([x]) => x)), omitted];
  };
  expect(xs("tokens")).toEqual([
    [
      [100, 200],
      [100, 200],
    ],
    [],
  ]);
  expect(xs("seconds")).toEqual([[[10, 20]], ["a2"]]);
  expect(xs("usd")).toEqual([[[0.25, 0.5]], ["a2"]]);
});

test("a run whose first step has expired begins at its second step, and is not drawn over tokens: their sum is unknown", () => {
  const { perStep, ...rest } = curve("a1", [0, 1, 1], 10);
  const runs = [{ ...rest, perStep: perStep.slice(1) }];
  const arms = [{ label: "arm", runs: ["a1"], measured: [] }];
  const overSteps = comparedCharts(runs, arms, "step", false);
  expect(overSteps.charts[0]?.lines[0]?.points.map(([x]) => x)).toEqual([2, 3]);
  expect(overSteps.omitted).toEqual([]);
  expect(comparedCharts(runs, arms, "tokens", false).omitted).toEqual(["a1"]);
});
