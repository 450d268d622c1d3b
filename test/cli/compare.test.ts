/** @file What a comparison plans and reports, on constructed runs: values worked by hand, the schema, tables, plots. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { drawBands } from "../../cli/compare/bands.ts";
import { heldOutBands, rewardBands } from "../../cli/compare/curves.ts";
import { drawMarkdown } from "../../cli/compare/markdown.ts";
import { entriesOf, parseArms, planRun, unreadSettings } from "../../cli/compare/plan.ts";
import { provenanceDifferences, provenanceOf, readOrigin, writeOrigin } from "../../cli/compare/provenance.ts";
import { Comparison, summarize } from "../../cli/compare/summary.ts";
import { evaluationsCsv, questionsCsv, stepsCsv } from "../../cli/compare/tables.ts";
import { runFolder } from "../../cli/local/run-folder.ts";
import { stageOf } from "../../core/training/curriculum.ts";
import { resolveConfig } from "../../core/training/resolve-config.ts";
import { recipe } from "../fixtures/relay/recipe.ts";
import { about, arms, IDENTIFIED, mgrpo, options, QUESTIONS, source } from "./compared-runs.ts";
import { config } from "./records.ts";

const labels = (vary: string[]) => entriesOf({ arms: ["mgrpo", "main-only"], vary }).map(({ label }) => label);

test("each arm is planned unvaried, and with each value of each varied setting, one setting at a time", () => {
  expect(labels([])).toEqual(["mgrpo", "main-only"]);
  expect(labels(["algorithm.alignment.d=1,2", "algorithm.ratio=sequence-mean"])).toEqual([
    "mgrpo",
    "mgrpo, algorithm.alignment.d=1",
    "mgrpo, algorithm.alignment.d=2",
    "mgrpo, algorithm.ratio=sequence-mean",
    "main-only",
    "main-only, algorithm.alignment.d=1",
    "main-only, algorithm.alignment.d=2",
    "main-only, algorithm.ratio=sequence-mean",
  ]);
  expect(
    entriesOf({ arms: ["mgrpo"], vary: ['algorithm.mainReward={"format":0,"correct":1},{"format":1,"correct":0}'] }),
  ).toMatchObject([
    { label: "mgrpo" },
    { varied: 'algorithm.mainReward={"format":0,"correct":1}' },
    { varied: 'algorithm.mainReward={"format":1,"correct":0}' },
  ]);
  expect(() => labels(["d"])).toThrow("--vary d: write path=value,value");
  for (const vary of [["d=1,1"], ["d=1", "d=2,1"], ["d=1,-1"]])
    expect(() => labels(vary)).toThrow("would have the same names as another variation");
  expect(parseArms("mgrpo, main-only")).toEqual(["mgrpo", "main-only"]);
  expect(() => parseArms("solo")).toThrow(/there is no arm 'solo'; arms are mgrpo, main-only/);
  expect(() => parseArms("mgrpo,mgrpo")).toThrow("names 'mgrpo' twice");
});

test("run names contain as much of a setting's path as makes them unique", () => {
  const slugs = (...vary: string[]) => entriesOf({ arms: ["mgrpo"], vary }).map(({ slug }) => slug);
  expect(slugs("algorithm.alignment.d=1", "rolloutsPerQuestion=4")).toEqual([
    undefined,
    "d-1",
    "rolloutsPerQuestion-4",
  ]);
  expect(slugs("agents.main.optimizer.learningRate=1e-4", "agents.searcher.optimizer.learningRate=1e-4")).toEqual([
    undefined,
    "main-optimizer-learningRate-0.0001",
    "searcher-optimizer-learningRate-0.0001",
  ]);
});

test("settings that the comparison itself decides cannot be set, and steps cannot be varied", () => {
  const [unvaried = expect.fail(), varied = expect.fail()] = entriesOf({ arms: ["mgrpo"], vary: ["steps=10"] });
  for (const set of ["seed=7", "run=x", "arm=mgrpo", "recipe=x", "sampledTokens=9"]) {
    const named = { ...source, options: { ...options, set: [set] } };
    expect(() => planRun(named, unvaried, 1, undefined)).toThrow(`${set.split("=")[0]} cannot be set or varied`);
  }
  expect(() => planRun(source, varied, 1, undefined)).toThrow("steps cannot be varied");
});

test("a setting is unread only if no run of the comparison reads it", () => {
  const unread = (set: string[], ...vary: string[]) => {
    const chosen = { ...options, arms: ["mgrpo", "main-only"] as const, set, vary };
    const planned = entriesOf(chosen).map((entry) => planRun({ ...source, options: chosen }, entry, 1, undefined));
    return new Set(unreadSettings(planned.map(({ config }) => config)).map(([path]) => path));
  };
  const tokens = "algorithm.constantTokens=100";
  expect(unread([tokens])).toEqual(new Set(["algorithm.constantTokens"]));
  expect(unread([tokens], "algorithm.aggregation=token-mean")).toEqual(new Set(["algorithm.constantTokens"]));
  expect(unread([tokens], "algorithm.aggregation=token-mean,constant")).toEqual(new Set());
  // The unvaried arm has the default, and would not read another value either.
  expect(unread([], "algorithm.constantTokens=100,200")).toEqual(new Set(["algorithm.constantTokens"]));
  expect(unread(["algorithm.aggregation=constant"], "algorithm.constantTokens=100,200")).toEqual(new Set());
  expect(unread(["algorithm.kl.estimator=k1"], "algorithm.kl.coefficient=0.01")).toEqual(new Set());
  expect(unread(["algorithm.epsilon=0.1"], "algorithm.advantageScale=none")).toEqual(new Set());
});

test("the first arm trains for its configured steps; the others until they have sampled as many tokens, in at most four times the steps", () => {
  const [unvaried = expect.fail(), entry = expect.fail(), same = expect.fail()] = entriesOf({
    arms: ["no-alignment"],
    vary: ["rolloutsPerQuestion=4,2"],
  });
  const first = planRun(source, unvaried, 2, undefined);
  expect(first.config).toMatchObject({
    ...{ run: "c-no-alignment-seed2", seed: 2, steps: 3, sampledTokens: null, temperature: 0.9 },
    algorithm: { alignment: { mode: "none" } },
  });
  const other = planRun({ ...source, options: { ...options, steps: 5 } }, entry, 2, 777);
  expect(other.config).toMatchObject({
    ...{ run: "c-no-alignment-rolloutsPerQuestion-4-seed2", rolloutsPerQuestion: 4, steps: 20, sampledTokens: 777 },
  });
  expect(() => planRun(source, same, 2, 777)).toThrow(
    "--vary rolloutsPerQuestion=2: this is the value that no-alignment has anyway",
  );
});

test("every arm asks harder questions after the same share of the run, although all but the first may take more steps", () => {
  const staged = [
    { fromStep: 0, levels: [1] },
    { fromStep: 20, levels: [1, 2] },
    { fromStep: 90, levels: [3] },
  ];
  const [first = expect.fail(), other = expect.fail()] = entriesOf({ arms: ["mgrpo", "main-only"], vary: [] });
  const named = { ...source, options: { ...options, steps: 60, set: [`curriculum=${JSON.stringify(staged)}`] } };
  const [lead, arm] = [planRun(named, first, 1, undefined), planRun(named, other, 1, 6000)];
  for (const { config, set } of [lead, arm]) {
    // 20 of 60 steps; the last stage would never begin.
    const stages = [
      { from: 0, levels: [1] },
      { from: 20 / 60, levels: [1, 2] },
    ];
    expect(config.curriculum).toEqual(stages);
    expect(resolveConfig(recipe, { run: config.run, seed: 1, arm: config.arm, set }).curriculum).toEqual(stages);
  }
  const leadStage = (step: number) => stageOf(lead.config, { step, sampledBefore: 100 * step });
  expect([0, 19, 20, 59].map(leadStage)).toEqual([0, 0, 1, 1]);
  // The other arm samples half as many tokens a step, so it is a third through at step 40 of its at most 240.
  const armStage = (step: number) => stageOf(arm.config, { step, sampledBefore: 50 * step });
  expect([20, 39, 40, 119].map(armStage)).toEqual([0, 0, 1, 1]);

  const shares = JSON.stringify([
    { from: 0, levels: [1] },
    { from: 0.5, levels: [2] },
  ]);
  const kept = { ...source, options: { ...options, set: [`curriculum=${shares}`] } };
  expect(planRun(kept, first, 1, undefined).set).toEqual([`curriculum=${shares}`]);
});

test("every arm is evaluated after the same shares of the run, although all but the first may take more steps", () => {
  const [first = expect.fail(), other = expect.fail()] = entriesOf({ arms: ["mgrpo", "main-only"], vary: [] });
  const everyOf = (every: number, entry: typeof first, budget?: number) => {
    const set = ['evaluation.suites=[{"name":"all"}]', `evaluation.every=${every}`];
    const planned = planRun({ ...source, options: { ...options, steps: 60, set } }, entry, 1, budget);
    expect(resolveConfig(recipe, { run: "r", seed: 1, arm: entry.arm, set: planned.set }).evaluation.every).toBe(
      planned.config.evaluation.every,
    );
    return planned.config.evaluation.every;
  };
  expect([everyOf(20, first), everyOf(20, other, 6000)]).toEqual([20 / 60, 20 / 60]);
  // A share stays; after 60 steps or more there is no evaluation during training.
  expect([0.25, 0, 59, 60, 100].map((every) => everyOf(every, other, 6000))).toEqual([0.25, 0, 59 / 60, 0, 0]);
});

describe("the provenance of a run", () => {
  const ours = provenanceOf(planRun(source, entriesOf(options)[0] ?? expect.fail(), 1, undefined).config, IDENTIFIED);

  test("a model's folder may have another path, a commit may be abbreviated, and the machine may differ; an unknown commit is mismatched", () => {
    const { agents, ...rest } = config;
    const moved = Object.entries(agents).map(([name, agent]) => [name, { ...agent, model: `/elsewhere/${name}` }]);
    const theirs = provenanceOf({ ...rest, agents: Object.fromEntries(moved) }, IDENTIFIED);
    expect(provenanceDifferences(provenanceOf(config, IDENTIFIED), theirs)).toEqual([]);
    const commit = execFileSync("git", ["rev-parse", "HEAD"], { encoding: "utf8" }).trim();
    expect(provenanceDifferences({ ...ours, commit: commit.slice(0, 12) }, { ...ours, commit })).toEqual([]);
    expect(provenanceDifferences(ours, { ...ours, commit: "0".repeat(12) })).toEqual([
      expect.stringMatching(/^commit: "0{12}" \(stored\)/),
    ]);
    expect(provenanceDifferences(ours, { ...ours, machine: "another" })).toEqual([]);
  });

  test("a run that was resumed at a commit with the same code is not mismatched; a single version with other code makes it mismatched", () => {
    const commit = execFileSync("git", ["rev-parse", "HEAD"], { encoding: "utf8" }).trim();
    const refusals = (...versions: string[]) =>
      provenanceDifferences({ ...ours, commit: commit.slice(0, 12) }, { ...ours, commit: versions.join(", then ") });
    expect(refusals(commit, commit.slice(0, 12))).toEqual([]);
    for (const other of ["0".repeat(12), `${commit.slice(0, 12)}-dirty`, "unknown"])
      expect([refusals(other, commit), refusals(commit, other)].map(({ length }) => length)).toEqual([1, 1]);
  });

  test("a run that one commit began and others continued names every commit once", () => {
    const path = mkdtempSync(join(tmpdir(), "mgrpo-origin-"));
    const folder = { ...runFolder("x"), path, origin: join(path, "origin.json"), config: join(path, "config.json") };
    expect(readOrigin(folder)).toBeUndefined();
    writeOrigin(folder, { ...ours, commit: "a" });
    // The run has not started, so its origin is replaced.
    writeOrigin(folder, { ...ours, commit: "b" });
    expect(readOrigin(folder)).toEqual({ ...ours, commit: "b" });
    writeFileSync(folder.config, "{}");
    for (const commit of ["b", "c", "c"]) writeOrigin(folder, { ...ours, commit });
    expect(readOrigin(folder)).toEqual({ ...ours, commit: "b, then c" });
    rmSync(folder.origin);
    expect(readOrigin(folder)).toEqual({ commit: "unknown", machine: "unknown" });
    writeOrigin(folder, ours);
    expect(readOrigin(folder)).toMatchObject({ release: `unknown, then ${ours.release}` });
    rmSync(path, { recursive: true });
  });
});

const comparison = summarize(about, arms);

test("shares, gains and differences have the values worked by hand; arms are compared on the seeds that both have", () => {
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

test("an arm without runs has no scores, rather than zeros", () => {
  const [empty] = summarize(about, [{ entry: mgrpo, runs: [], budgets: new Map() }]).arms;
  expect(empty).toMatchObject({ runs: [], heldOut: [], caseStudies: [], kinds: [] });
});

test("the page has the command, the commits and machine, unfinished runs, scores, a case study, and every run with its number of answers", () => {
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
    "], n = 8 |",
  ])
    expect(page).toContain(text);
  for (const run of ["a1", "a2", "b2"]) expect(page).toContain(`| ${run} |`);
});

test("a label with a bar and several lines stays in its cell of the page", () => {
  const named = arms.map((one) => ({ ...one, entry: { ...one.entry, label: "mgrpo, agents.main.system=a\n b|c" } }));
  expect(drawMarkdown(summarize(about, named), [])).toContain("| mgrpo, agents.main.system=a b\\|c |");
});

test("the CSV tables have one line per step, evaluation and question of each run, and quote cells with separators", () => {
  const lines = (csv: string) => csv.trimEnd().split("\n");
  expect(lines(stepsCsv(arms))).toHaveLength(1 + 3);
  expect(lines(stepsCsv(arms))[0]).toMatch(/^arm,seed,step,sampled_tokens,.*reward_main,.*calls_searcher/);
  expect(lines(evaluationsCsv(arms))[2]).toBe("mgrpo,1,1,30,sampled,1,false,8,6,0.40926988,0.92852231");
  expect(lines(questionsCsv(arms))).toHaveLength(1 + 3 * QUESTIONS);
  expect(lines(questionsCsv(arms)).at(-QUESTIONS)).toBe(
    '"main-only, x={""a"":1,""b"":2}",2,sampled,q0,even,1,1,1,1,2,0,2,1',
  );
  // Readers of CSV take a carriage return for the end of a line.
  const returned = arms.map((one) => ({ ...one, entry: { ...one.entry, label: "a\rb" } }));
  expect(lines(evaluationsCsv(returned))[1]).toMatch(/^"a\rb",1,/);
});

test("a step whose rollouts were all lost has no share of correct or well-formed answers", () => {
  const lost = arms.slice(0, 1).map((one) => ({
    ...one,
    runs: one.runs.map((run) => {
      const perStep = run.report.perStep.map((step) => ({ ...step, rollouts: 0, correct: 0, wellFormed: 0 }));
      return { ...run, report: { ...run.report, perStep } };
    }),
  }));
  // arm, seed, step, sampled_tokens, seconds, correct, well_formed, rollouts
  expect(stepsCsv(lost).split("\n")[1]).toMatch(/^mgrpo,1,1,30,2,,,0,/);
});

test("settings whose paths end in the same name have different names in the legend", () => {
  const [one = expect.fail()] = arms;
  const vary = ["algorithm.mainReward.format=0.2", "algorithm.subReward.format=0.2"];
  const varied = entriesOf({ arms: ["mgrpo"], vary }).map((entry) => ({ ...one, entry }));
  const names = ["mgrpo", "mainReward.format=0.2", "subReward.format=0.2"];
  expect(heldOutBands(varied).map(({ name }) => name)).toEqual(names);
  expect(heldOutBands(varied.slice(0, 2)).map(({ name }) => name)).toEqual(["mgrpo", "format=0.2"]);
});

test("the curves are held-out scores over sampled tokens and reward per step, in both themes, without external resources", () => {
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
