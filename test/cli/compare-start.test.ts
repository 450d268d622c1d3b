/** @file What the arms of a comparison start from: settings of second stages, what the summary says about them, and what is refused. */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type CompareOptions, entriesOf, planRun } from "../../cli/compare/plan.ts";
import { identifyBases } from "../../cli/compare/provenance.ts";
import { startedModels } from "../../cli/compare/runs.ts";
import { checkStart, describeQuestions, describeStart } from "../../cli/compare/start.ts";
import { readBases } from "../../cli/local/base-models.ts";
import type { Recipe } from "../../core/recipe.ts";
import { baseFiles } from "../fixtures/relay/policy.ts";
import { recipe } from "../fixtures/relay/recipe.ts";
import { chdirToProject } from "./command-line.ts";

chdirToProject();

const options: CompareOptions = {
  ...{ arms: ["mgrpo"], seeds: [1, 2], jobs: 1, vary: [], set: [], from: [], name: "c", mixed: false },
};
const source = { recipe, recipeName: "relay", options };

const from = ["stage1", "main-only=other"];
const start = { from, questions: "hard.jsonl" };

test("an arm's agents start from a run's checkpoints, on the questions of a file; held-out questions are the recipe's", () => {
  const [own = expect.fail(), frozen = expect.fail()] = entriesOf({ arms: ["mgrpo", "main-only"], vary: [] });
  const named = { ...source, options: { ...options, ...start } };
  const { config } = planRun(named, own, 1, undefined);
  expect(config.questions).toEqual({ train: "hard.jsonl", heldOut: "recipe" });
  expect(config.agents["main"]?.model).toBe("runs/stage1/checkpoints/main");
  expect(config.agents["searcher"]).toMatchObject({ model: "runs/stage1/checkpoints/searcher", trained: true });
  const other = planRun(named, frozen, 1, 9).config;
  expect(other.agents["searcher"]).toMatchObject({ model: "runs/other/checkpoints/searcher", trained: false });
});

test("{seed} in --from and --questions stands for the seed of each run, and the summary shows it as given", () => {
  const staged = { ...options, from: ["first-seed{seed}"], questions: "hard-{seed}.jsonl" };
  const [entry = expect.fail()] = entriesOf(staged);
  const planned = [3, 12].map((seed) => planRun({ ...source, options: staged }, entry, seed, 9).config);
  expect(planned.map(({ agents }) => agents["main"]?.model)).toEqual([
    "runs/first-seed3/checkpoints/main",
    "runs/first-seed12/checkpoints/main",
  ]);
  expect(planned.map(({ questions }) => questions?.train)).toEqual(["hard-3.jsonl", "hard-12.jsonl"]);
  expect(describeStart(["mgrpo"], staged)).toBe("mgrpo: the checkpoints of run first-seed{seed}");
  expect(describeQuestions(staged)).toBe("hard-{seed}.jsonl");
});

/** The relay recipe, changed so that its single-agent arm has one agent. */
const withSingle: Recipe = {
  ...recipe,
  config(arm, chosen) {
    if (typeof recipe.config !== "function") throw new TypeError("relay computes its config");
    const { agents, ...rest } = recipe.config(arm, chosen);
    const { delegates: _, ...main } = agents["main"] ?? expect.fail();
    return { ...rest, agents: arm === "single-agent" ? { main } : agents };
  },
};

/** Writes a checkpoint of each agent; `text` makes its weights different from those of other folders. */
function writeFolder(folder: string, agents: readonly string[], text: string): void {
  for (const agent of agents) {
    mkdirSync(join(folder, agent), { recursive: true });
    for (const [name, bytes] of baseFiles(`${agent} ${text}`)) writeFileSync(join(folder, agent, name), bytes);
  }
}

test("each arm's models come from the folder that --from gives it, and their hashes are the bases in its provenance", async () => {
  writeFolder("warm/team", ["main", "searcher"], "team");
  writeFolder("warm/single", ["main"], "single");
  const arms = ["mgrpo", "main-only", "single-agent"] as const;
  const folders = { ...options, arms, from: ["warm/team/", "single-agent=./warm/single"] };
  checkStart(withSingle, arms, folders);
  const made = entriesOf(folders).map((entry) => {
    const { config } = planRun({ ...source, recipe: withSingle, options: folders }, entry, 1, 9);
    return { config, models: Object.entries(config.agents).map(([name, { model }]) => [name, model]) };
  });
  const team = [
    ["main", "warm/team/main"],
    ["searcher", "warm/team/searcher"],
  ];
  expect(made.map(({ models }) => models)).toEqual([team, team, [["main", "warm/single/main"]]]);
  const basesOf = async () =>
    Promise.all(made.map(async ({ config }) => identifyBases(await readBases(config, "train"))));
  const [own, frozen, single] = await basesOf();
  expect(Object.keys(own ?? {})).toEqual(["main", "searcher"]);
  expect(frozen).toEqual(own);
  expect(Object.keys(single ?? {})).toEqual(["main"]);
  expect(single?.["main"]).not.toBe(own?.["main"]);
  writeFolder("warm/single", ["main"], "another");
  const [same, , other] = await basesOf();
  expect(same).toEqual(own);
  expect(other?.["main"]).not.toBe(single?.["main"]);
});

test("agents that share a policy start from the folder of the agent that owns it", () => {
  writeFolder("warm/shared", ["main"], "shared");
  const shared = { ...options, arms: ["shared-policy"] as const, from: ["warm/shared"] };
  checkStart(recipe, shared.arms, shared);
  const [entry = expect.fail()] = entriesOf(shared);
  const { set } = planRun({ ...source, options: shared }, entry, 1, undefined);
  expect(set.filter((setting) => setting.startsWith("agents."))).toEqual(["agents.main.model=warm/shared/main"]);
});

test("what --from and --questions decide cannot be set; without these options, it can", () => {
  const [own = expect.fail()] = entriesOf(options);
  for (const set of [
    "agents.main.model=x",
    'agents.main={"model":"x","delegates":["searcher"]}',
    "questions.train=x.jsonl",
  ]) {
    const named = { ...source, options: { ...options, ...start, set: [set] } };
    expect(() => planRun(named, own, 1, undefined)).toThrow(/cannot be set or varied.*--from or --questions/);
    expect(() =>
      planRun({ ...named, options: { ...options, set: [set, "questions.train=y"] } }, own, 1, 9),
    ).not.toThrow();
  }
});

test("the summary says what each arm starts from, and which arm's sub-agents are frozen", () => {
  expect(describeStart(["mgrpo", "main-only"], { from: [], set: [] })).toBe(
    "mgrpo: the recipe's base models; main-only: the recipe's base models, with frozen sub-agents",
  );
  expect(describeStart(["mgrpo", "main-only"], { from: ["s"], set: [] })).toBe(
    "mgrpo: the checkpoints of run s; main-only: the checkpoints of run s, with frozen sub-agents",
  );
  expect(
    describeStart(["mgrpo", "main-only", "single-agent"], { from: ["models/warm", "single-agent=s"], set: [] }),
  ).toBe(
    "mgrpo: the checkpoints in models/warm; main-only: the checkpoints in models/warm, with frozen sub-agents; single-agent: the checkpoints of run s",
  );
});

test("the summary names models and questions that --set chooses", () => {
  const set = ["agents.main.model=warm/main", "steps=2", "questions.train=mine.jsonl"];
  expect(describeStart(["mgrpo"], { from: [], set })).toBe(
    "mgrpo: the recipe's base models, except for agents.main.model=warm/main",
  );
  expect(describeQuestions({ set })).toBe("mine.jsonl");
  expect(describeQuestions({ set: ['questions={"train":"all.jsonl"}'] })).toBe("all.jsonl");
  expect(describeQuestions({ questions: "q.jsonl", set: [] })).toBe("q.jsonl");
  expect(describeQuestions({ set: [] })).toBe("the recipe's");
});

test.each([
  [["a", "b"], /--from b: another source is given for all arms/],
  [["mgrpo=a", "mgrpo=./b"], /--from mgrpo=.\/b: mgrpo has a source already/],
  [["single-agent=a"], /--arms has no 'single-agent'; it has mgrpo, main-only/],
  [["mgrpo=a"], /arm main-only has nothing to start from: add --from main-only=<run or folder>/],
  [["gone"], /no run 'gone'/],
  [["models"], /--from models: there is no such run; if you mean the folder, write \.\/models/],
  [["./gone"], /--from \.\/gone: there is no folder .*gone/],
] as const)("refused: --from %j", (given, line) => {
  expect(() => checkStart(recipe, ["mgrpo", "main-only"], { from: given })).toThrow(line);
});

test("a folder that lacks an agent's checkpoint is refused, and the error names the agent", () => {
  writeFolder("warm/partial", ["main"], "partial");
  const refused = (arms: CompareOptions["arms"], ...given: string[]) =>
    expect(() => checkStart(recipe, arms, { from: given })).toThrow(
      "--from warm/partial: the folder has no checkpoint 'searcher', which arm main-only needs: add --from main-only=<another run or folder>",
    );
  refused(["main-only"], "warm/partial");
  refused(["mgrpo", "main-only"], "./models", "main-only=warm/partial");
  expect(() => checkStart(recipe, ["mgrpo"], { from: ["./models"] })).not.toThrow();
});

test("a bare name means a run, even if a folder has the same name", () => {
  mkdirSync("runs/models/checkpoints/main", { recursive: true });
  writeFileSync("runs/models/config.json", "{}");
  expect(() => checkStart(recipe, ["mgrpo"], { from: ["models"] })).toThrow(
    "--from models: the run has no agent 'searcher', which arm mgrpo needs",
  );
  expect(describeStart(["mgrpo"], { from: ["models"], set: [] })).toBe("mgrpo: the checkpoints of run models");
});

test("a hub model stays at the commit that a started run of the comparison recorded for the same name and revision", () => {
  const [entry = expect.fail()] = entriesOf(options);
  const { config } = planRun(source, entry, 1, undefined);
  const { main = expect.fail() } = config.agents;
  const named = (run: string, model: string) => ({ ...config, run, agents: { main: { ...main, model } } });
  const begin = (run: string, commit: string) => {
    const model = `hf:owner/tiny@${commit.repeat(40)}`;
    mkdirSync(`runs/${run}`, { recursive: true });
    writeFileSync(`runs/${run}/config.json`, JSON.stringify(named(run, model)));
    return model;
  };
  const [revision, newest] = [begin("hub-v2-seed1", "a"), begin("hub-seed1", "b")];
  const planned = [
    named("hub-v2-seed1", "hf:owner/tiny@v2"),
    ...["hub-seed1", "hub-seed2"].map((run) => named(run, "hf:owner/tiny")),
  ];
  const started = (model: string) => startedModels(planned, named("hub-seed2", model)).agents["main"]?.model;
  expect(started("hf:owner/tiny")).toBe(newest);
  expect(started("hf:owner/tiny@v2")).toBe(revision);
  expect(started("hf:owner/other")).toBe("hf:owner/other");
  expect(started("models/main")).toBe("models/main");
  for (const run of ["hub-v2-seed1", "hub-seed1"]) rmSync(`runs/${run}`, { recursive: true });
});
