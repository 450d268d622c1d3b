/** @file What a comparison plans: its runs, their names, settings and stages, and what made each run. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type CompareOptions, entriesOf, parseArms, planRun } from "../../cli/compare/plan.ts";
import { foreignBy, provenanceOf, readOrigin, writeOrigin } from "../../cli/compare/provenance.ts";
import { runFolder } from "../../cli/local/run-folder.ts";
import { stageOf } from "../../core/training/curriculum.ts";
import { resolveConfig } from "../../core/training/resolve-config.ts";
import { recipe } from "../fixtures/relay/recipe.ts";
import { config } from "./records.ts";

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
const labels = (vary: string[]) => entriesOf({ arms: ["mgrpo", "main-only"], vary }).map(({ label }) => label);

test("each arm unvaried, and with each value of each varied setting, one setting at a time", () => {
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

test("settings that the comparison itself sets are refused", () => {
  const [unvaried = expect.fail(), varied = expect.fail()] = entriesOf({ arms: ["mgrpo"], vary: ["steps=10"] });
  for (const set of ["seed=7", "run=x", "arm=mgrpo", "recipe=x", "sampledTokens=9"]) {
    const named = { ...source, options: { ...options, set: [set] } };
    expect(() => planRun(named, unvaried, 1, undefined)).toThrow(`${set.split("=")[0]} cannot be set or varied`);
  }
  expect(() => planRun(source, varied, 1, undefined)).toThrow("steps cannot be set or varied");
});

test("the first arm trains for its steps; the others until they have sampled as many tokens, in at most four times the steps", () => {
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

test("every arm asks harder questions after the same share of the run, although all but the first take more steps", () => {
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

describe("what made a run", () => {
  const ours = provenanceOf(planRun(source, entriesOf(options)[0] ?? expect.fail(), 1, undefined).config, {});

  test("a model's folder may have another path, a commit may be abbreviated, and the machine may differ; an unknown commit is foreign", () => {
    const { agents, ...rest } = config;
    const moved = Object.entries(agents).map(([name, agent]) => [name, { ...agent, model: `/elsewhere/${name}` }]);
    const theirs = provenanceOf({ ...rest, agents: Object.fromEntries(moved) }, {});
    expect(foreignBy(provenanceOf(config, {}), theirs)).toEqual([]);
    const commit = execFileSync("git", ["rev-parse", "HEAD"], { encoding: "utf8" }).trim();
    expect(foreignBy({ ...ours, commit: commit.slice(0, 12) }, { ...ours, commit })).toEqual([]);
    expect(foreignBy(ours, { ...ours, commit: "0".repeat(12) })).toEqual([
      expect.stringMatching(/^commit: "0{12}" \(stored\)/),
    ]);
    expect(foreignBy(ours, { ...ours, machine: "another" })).toEqual([]);
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
