/** @file What a comparison reports, on constructed runs: values worked by hand, the schema, tables, plots. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { drawBands } from "../../cli/compare/bands.ts";
import { heldOutBands, rewardBands } from "../../cli/compare/curves.ts";
import { drawMarkdown } from "../../cli/compare/markdown.ts";
import { type CompareOptions, entriesOf, planRun } from "../../cli/compare/plan.ts";
import { type FinishedRun, keepRecord, readRecord } from "../../cli/compare/records.ts";
import { type ArmRuns, Comparison, summarize } from "../../cli/compare/summary.ts";
import { evaluationsCsv, questionsCsv, stepsCsv } from "../../cli/compare/tables.ts";
import { quoted, resultFiles, unfinished } from "../../cli/compare.ts";
import type { HeldOutScores } from "../../cli/held-out-scores.ts";
import { buildReport } from "../../cli/run-report.ts";
import { RunConfig } from "../../core/contracts/config.ts";
import { summarizeStep } from "../../core/monitoring/step-summary.ts";
import { recipe } from "../fixtures/relay/recipe.ts";
import { config, groups, manifests, step } from "./records.ts";

const options: CompareOptions = {
  arms: ["mgrpo"],
  seeds: 2,
  jobs: 1,
  vary: [],
  set: ["temperature=0.9"],
  from: [],
  name: "c",
  mixed: false,
};
const source = { recipe, recipeName: "relay", options };
const QUESTIONS = 8;

/** A run whose untrained team answers the first question correctly and whose trained team the first `correct`. */
function finished(run: string, seed: number, correct: number, tokens = 30): FinishedRun {
  const perStep = [
    {
      ...summarizeStep(config, step, groups, new Map(manifests.map((one) => [one.agent, one])), 2),
      sampledTokens: tokens,
    },
  ];
  const scores = (team: number, correct: number): HeldOutScores => ({
    ...{ team, suite: "sampled", temperature: 1, closedBook: false },
    questions: Array.from({ length: QUESTIONS }, (_, i) => ({
      ...{ question: `q${i}`, kind: i % 2 === 0 ? "even" : "odd", n: 1, correct: Number(i < correct) },
      studies: { care: { n: i === 0 ? 2 : 0, correct: i === 0 ? team : 0 } },
    })),
  });
  const interval = { low: 0, high: 1 };
  const study = { study: "care", expected: "care is taken", suite: "sampled", temperature: 1 };
  const report = buildReport({
    config: RunConfig.parse({ ...config, run, seed }),
    evaluations: [],
    caseStudies: [{ ...study, before: { n: 2, correct: 0, interval }, after: { n: 2, correct: 1, interval } }],
    perStep,
    ...{ writes: { requests: 8, bytes: 4000, units: 12 }, scoringSeconds: 0.5, totalSeconds: 1800, agents: {} },
  });
  return {
    by: { commit: `abc${seed}`, machine: "m" },
    foreign: [],
    report,
    heldOut: [scores(0, 1), scores(1, correct)],
  };
}

const [mgrpo = expect.fail(), frozen = expect.fail()] = entriesOf({ arms: ["mgrpo", "main-only"], vary: [] });
const arms: ArmRuns[] = [
  { entry: mgrpo, runs: [finished("a1", 1, 6), finished("a2", 2, 8)], budgets: new Map() },
  {
    entry: { ...frozen, label: 'main-only, x={"a":1,"b":2}' },
    runs: [finished("b2", 2, 4, 20)],
    budgets: new Map([["b2", 30]]),
  },
];
const about = {
  name: "c",
  recipe: "tiny",
  command: "cmd",
  start: "mgrpo: the recipe's base models",
  questions: "the recipe's",
  seeds: [1, 2],
  missing: ["b1"],
};
const comparison = summarize(about, arms);

test("shares, gains and differences by hand, on the seeds that both arms have", () => {
  expect(Comparison.parse(JSON.parse(JSON.stringify(comparison)))).toEqual(comparison);
  const [first, second] = comparison.arms;
  // (6 + 8) / 16, from 2 / 16; the other arm has seed 2 alone: 4 / 8 against 8 / 8.
  expect(first?.heldOut[0]).toMatchObject({ before: { value: 0.125 }, after: { value: 0.875 }, gain: { value: 0.75 } });
  expect(first?.heldOut[0]?.againstFirst).toBeNull();
  expect(second?.heldOut[0]).toMatchObject({ after: { value: 0.5 }, againstFirst: { value: -0.5 } });
  expect(first?.caseStudies).toMatchObject([{ study: "care", before: { value: 0 }, after: { value: 0.5 } }]);
  expect(second?.kinds.map(({ kind, after }) => [kind, after?.value])).toEqual([
    ["even", 0.5],
    ["odd", 0.5],
  ]);
  expect(comparison.hours).toBe(1.5);
  expect(second?.runs).toMatchObject([{ run: "b2", short: true, sampledTokens: 20 }]);
  expect(first?.runs.map(({ short }) => short)).toEqual([false, false]);
});

test("an arm without runs has no scores, instead of zeros", () => {
  const [empty] = summarize(about, [{ entry: mgrpo, runs: [], budgets: new Map() }]).arms;
  expect(empty).toMatchObject({ runs: [], heldOut: [], caseStudies: [], kinds: [] });
});

test("the page names the command, the commits and machine, unfinished runs, and every arm and run", () => {
  const page = drawMarkdown(comparison, [["Picture", "held-out.svg"]]);
  for (const text of [
    "`cmd`",
    "| abc1, abc2 |",
    "| m |",
    "Unfinished, and left out: b1",
    "(short)",
    "87.5 [",
    "-50.0 [",
    "care",
  ])
    expect(page).toContain(text);
  for (const run of ["a1", "a2", "b2"]) expect(page).toContain(`| ${run} |`);
});

test("tables: one line per step, evaluation and question, cells with commas quoted", () => {
  const lines = (csv: string) => csv.trimEnd().split("\n");
  expect(lines(stepsCsv(arms))).toHaveLength(1 + 3);
  expect(lines(stepsCsv(arms))[0]).toMatch(/^arm,seed,step,sampled_tokens,.*reward_main,.*calls_searcher/);
  expect(lines(evaluationsCsv(arms))[2]).toBe("mgrpo,1,1,30,sampled,1,false,8,6,0.40926988,0.92852231");
  expect(lines(questionsCsv(arms))).toHaveLength(1 + 3 * QUESTIONS);
  expect(lines(questionsCsv(arms)).at(-QUESTIONS)).toBe(
    '"main-only, x={""a"":1,""b"":2}",2,sampled,q0,even,1,1,1,1,2,0,2,1',
  );
});

test("curves: held-out over sampled tokens, reward per step; both themes, no external resources", () => {
  const [band] = heldOutBands(arms);
  expect(band?.points).toMatchObject([
    { x: 0, y: 0.125 },
    { x: 0.03, y: 0.875 },
  ]);
  for (const { y, low, high } of band?.points ?? []) expect(low <= y && y <= high).toBe(true);
  expect(rewardBands(arms, "main")[0]?.points).toMatchObject([{ x: 1, y: expect.closeTo(0.7, 9) }]);
  const svg = drawBands({
    title: "T",
    subtitle: "N",
    xName: "x",
    xIsCount: false,
    bands: heldOutBands(arms),
    marked: true,
  });
  expect(svg).toMatch(/^<svg[^>]*xmlns/);
  for (const text of ["mgrpo", "main-only", "prefers-color-scheme: dark", "<polygon"]) expect(svg).toContain(text);
  expect(svg.replace(/xmlns(:\w+)?="[^"]*"/g, "")).not.toMatch(/https?:|<script|@import|NaN/);
});

test("a comparison without held-out evaluations has no chart of them", () => {
  const trained = arms.map((arm) => ({ ...arm, runs: arm.runs.map((run) => ({ ...run, heldOut: [] })) }));
  const files = resultFiles(summarize(about, trained), trained, "main");
  expect(Object.keys(files)).not.toContain("held-out.svg");
  expect(files["summary.md"]).not.toContain("held-out.svg");
  expect(files["summary.md"]).toContain("(reward.svg)");
  expect(Object.keys(resultFiles(comparison, arms, "main"))).toContain("held-out.svg");
});

test("the error of an unfinished comparison names the run that failed and why, or that its process exited", () => {
  expect(unfinished(["a", "b", "c"], new Map([["b", "disk full"]])).message).toBe(
    "run 'b' failed: disk full; unfinished besides it: 2 runs; run the same command to resume",
  );
  expect(unfinished(["a"], new Map()).message).toBe(
    "run 'a' failed: its process exited without finishing it; run the same command to resume",
  );
});

test("a record made with other settings is accepted with --mixed, one of another run never", () => {
  const results = mkdtempSync(join(tmpdir(), "mgrpo-records-"));
  const planned = { ...planRun(source, mgrpo, 1, undefined), by: { commit: "c", machine: "m" } };
  const { run } = planned.config;
  keepRecord(results, planned, finished(run, 1, 6));
  const changed = { ...planned, set: ["temperature=0.5"] };
  expect(() => readRecord(results, changed, false)).toThrow(/other settings.*temperature=0\.9.*keep it with --mixed/);
  expect(readRecord(results, changed, true)?.foreign[0]).toContain("temperature=0.9");
  const other = { ...planned, config: { ...planned.config, seed: 2 } };
  expect(() => readRecord(results, other, true)).toThrow(
    /is of another run: seed: 1 \(stored\), 2 .*or remove that file/,
  );
  writeFileSync(join(results, "runs", `${run}.json.gz`), "not gzip");
  expect(() => readRecord(results, planned, true)).toThrow(/is damaged \(.+\): remove it/);
  rmSync(results, { recursive: true });
});

test("the command of a comparison can be copied into a shell, quotes included", () => {
  const words = ["a", "x=1,2", "it's", '$HOME `b` "c"', ""];
  const script = `printf '%s\\n' ${words.map(quoted).join(" ")}`;
  expect(execFileSync("sh", ["-c", script], { encoding: "utf8" })).toBe(`${words.join("\n")}\n`);
});
