/** @file report.json: it matches its schema and has the values worked by hand. The chart of a run: what it shows. */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { plotTop, renderChart } from "../../cli/chart-theme.ts";
import { drawCurve } from "../../cli/curve.ts";
import { writeReport } from "../../cli/local/finish.ts";
import { RunStatus, runFolder } from "../../cli/local/run-folder.ts";
import { buildReport, RunReport } from "../../cli/run-report.ts";
import { summarizeStep } from "../../core/monitoring/step-summary.ts";
import type { TeamEvaluation } from "../../core/monitoring/team-evaluation.ts";
import { smooth } from "../../ui/palette.ts";
import { config, groups, manifests, scoreOf, step } from "./records.ts";

const evaluation = (team: number, correct: number, temperature: number, closedBook = false): TeamEvaluation => ({
  team,
  suite: `t${temperature}${closedBook}`,
  temperature,
  closedBook,
  ...scoreOf(10, correct),
});
const evaluations = [
  evaluation(0, 4, 0),
  evaluation(0, 3, 1),
  evaluation(1, 9, 0),
  evaluation(1, 8, 1),
  evaluation(1, 1, 1, true),
];
const perStep = [summarizeStep(config, step, groups, new Map(manifests.map((one) => [one.agent, one])), 2)];
const input = {
  config,
  evaluations,
  gains: [],
  caseStudies: [],
  perStep,
  writes: { requests: 8, bytes: 4000, units: 12 },
  scoringSeconds: 0.5,
  totalSeconds: 9,
  agents: { main: { version: 1, checkpoint: "checkpoints/main", sha256: "a".repeat(64) } },
};

test("the report's fields have the values worked by hand", () => {
  const report = buildReport(input);
  expect(RunReport.parse(JSON.parse(JSON.stringify(report)))).toEqual(report);
  expect(report.heldOut).toEqual({
    before: { n: 10, correct: 3, greedy: { n: 10, correct: 4 } },
    after: { n: 10, correct: 8, greedy: { n: 10, correct: 9 } },
  });
  expect(report.closedBook).toBeCloseTo(0.1, 12);
  // Four rollouts, the lost one included.
  expect(report.store).toEqual({ bytesPerRollout: 1000, writesPerRollout: 2, writeUnitsPerRollout: 3 });
  expect(report.seconds).toEqual({
    main: { sampling: 1, training: 0.5, waiting: 0.25 },
    searcher: { sampling: 1, training: 0.5, waiting: 0.25 },
    scoring: 0.5,
    total: 9,
  });
});

test("the report has no seconds of an agent that no worker trains, rather than zeros", () => {
  const perStep = input.perStep.map(({ workers: { main = expect.fail() }, ...one }) => ({ ...one, workers: { main } }));
  const main = { sampling: 1, training: 0.5, waiting: 0.25 };
  expect(buildReport({ ...input, perStep }).seconds).toEqual({ main, scoring: 0.5, total: 9 });
});

test("the report is written last: if the chart cannot be written, there is no report", async () => {
  const folder = mkdtempSync(join(tmpdir(), "mgrpo-report-"));
  const report = join(folder, "report.json");
  const status = RunStatus.parse({
    ...{ run: config.run, recipe: config.recipe, arm: config.arm, seed: config.seed, steps: 1, step: 1 },
    ...{ state: "finished", reason: "", pid: 0, environment: {}, heldOut: { before: null, after: null } },
    ...{ seconds: input.totalSeconds, scoringSeconds: input.scoringSeconds, writes: input.writes },
  });
  const write = (curve: string) => {
    const files = { ...runFolder(config.run), report, curve: join(folder, curve) };
    return writeReport(config, files, status, perStep, evaluations, { gains: [], caseStudies: [] }, input.agents);
  };
  await expect(write("missing/curve.svg")).rejects.toThrow("ENOENT");
  expect(existsSync(report)).toBe(false);
  await write("curve.svg");
  expect(existsSync(report)).toBe(true);
  rmSync(folder, { recursive: true });
});

test("the report contains the warnings about the steps; a stored report without the field has none", () => {
  const wrong = perStep.map((summary) => ({ ...summary, zeroVariance: summary.groups, correct: 0, wellFormed: 1 }));
  const collapse = [...perStep, ...wrong, ...wrong, ...wrong].map((summary, n) => ({ ...summary, step: n }));
  expect(buildReport({ ...input, perStep: collapse }).warnings).toEqual([expect.stringMatching(/^since step 1 /)]);
  const { warnings: _, ...earlier } = buildReport(input);
  expect(RunReport.parse(earlier).warnings).toEqual([]);
});

test("a run without evaluations reports null, not a score of 0", () => {
  const report = buildReport({ ...input, evaluations: [] });
  expect(report).toMatchObject({ heldOut: { before: null, after: null }, closedBook: null });
});

test("a closed-book benchmark is not the closed-book score of the held-out questions", () => {
  const benchmark: TeamEvaluation = { ...evaluation(1, 9, 1, true), suite: "research", benchmark: "gaia" };
  expect(buildReport({ ...input, evaluations: [benchmark, ...evaluations] }).closedBook).toBeCloseTo(0.1, 12);
  expect(buildReport({ ...input, evaluations: [benchmark] }).closedBook).toBeNull();
});

test("of several sampled suites, the first in the config gives the held-out score, whichever finished first", () => {
  const suites = [{ name: "test" }, { name: "development" }].map((suite) => ({
    ...config.evaluation.suites[0],
    ...suite,
  }));
  const own = { ...config, evaluation: { ...config.evaluation, suites } } as typeof config;
  const done = ["development", "test"].map((suite, i) => ({ ...evaluation(1, 3 + i, 1), suite }));
  const report = buildReport({ ...input, config: own, evaluations: done });
  expect(report.heldOut.after).toMatchObject({ correct: 4 });
  expect(report.evaluations.map(({ suite }) => suite)).toEqual(["test", "development"]);
});

test("smoothing starts at the first value, keeps the average over gaps, and halves a value's weight in one half-life", () => {
  expect(smooth([null, 1, null, 1])).toEqual([null, 1, 1, 1]);
  // The half-life is 5 values.
  expect(smooth([1, 0, 0, 0, 0, 0]).at(-1)).toBeCloseTo(0.5, 12);
});

test("the chart is SVG with every agent and both themes, and refers to nothing outside it", () => {
  const svg = drawCurve({ ...buildReport(input), agents: ["main", "searcher"] });
  expect(svg).toMatch(/^<svg[^>]*xmlns/);
  const suites = buildReport(input).evaluations.filter(({ closedBook }) => !closedBook);
  const named = suites.map(({ suite, temperature }) => `held-out${temperature === 0 ? ", greedy" : ""} (${suite})`);
  const texts = [
    "main",
    "searcher",
    ...named,
    "prefers-color-scheme: dark",
    `, seed ${config.seed}, 1 step; rewards: thin raw, thick smoothed<`,
  ];
  for (const text of texts) expect(svg).toContain(text);
  expect(svg.replace(/xmlns(:\w+)?="[^"]*"/g, "")).not.toMatch(/https?:|<script|@import/);
});

test("the chart's axis extends to rewards outside 0 to 1", () => {
  const report = buildReport(input);
  const drawn = (main: number) => {
    const far = report.perStep.map((summary) => ({ ...summary, reward: { ...summary.reward, main } }));
    return drawCurve({ ...report, perStep: far, agents: ["main", "searcher"] });
  };
  expect(drawn(1.4)).toContain(">1.4<");
  expect(drawn(-0.3)).toContain(">-0.3<");
});

test("a benchmark's score is not drawn among the held-out scores", () => {
  const report = { ...buildReport(input), agents: ["main", "searcher"] };
  const benchmark: TeamEvaluation = { ...evaluation(1, 9, 1), suite: "research", benchmark: "gaia" };
  // Class and clip path names are numbered across drawings.
  const drawn = (evaluations: TeamEvaluation[]) =>
    drawCurve({ ...report, evaluations }).replace(/(?:zr\d+-)?(?:cls|c)-?\d+/g, "");
  expect(drawn([...report.evaluations, benchmark])).toBe(drawn(report.evaluations));
  expect(drawn([...report.evaluations, evaluation(1, 9, 1)])).not.toBe(drawn(report.evaluations));
});

test("steps are whole numbers on the axis, even for a short run", () => {
  const svg = drawCurve({ ...buildReport(input), steps: 2, agents: ["main", "searcher"] });
  const labels = [...svg.matchAll(/<text[^>]*>([^<]*)<\/text>/g)].map(([, label]) => label);
  expect(labels).toEqual(expect.arrayContaining(["0", "1", "2", "step"]));
  expect(labels).not.toContain("0.5");
});

test("the plot begins below its legend, however many rows the names take, and keeps its height", () => {
  const names = Array.from({ length: 9 }, (_, i) => `reader-of-long-pages-${i}`);
  expect(plotTop(names) - plotTop(["main"])).toBe(2 * 28);
  const legend = (all: readonly string[]) => ({ title: "", subtitle: "", legend: all.map((name) => ({ name })) });
  const heightOf = (all: readonly string[]) =>
    Number(/<svg[^>]* height="(\d+)"/.exec(renderChart(legend(all), {}))?.[1]);
  expect([heightOf(["main"]), heightOf(names)]).toEqual([480, 480 + 2 * 28]);
});
