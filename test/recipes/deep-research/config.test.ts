/** @file The recipe's defaults: the paper's settings, what an LLM gets, what the user's own questions, judge and tools change, and what is refused. */

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { questionsOf } from "../../../adapters/benchmarks/load.ts";
import { readBases } from "../../../cli/local/base-models.ts";
import { Arm, type RunConfig } from "../../../core/contracts/config.ts";
import { openToolBudget } from "../../../core/conversation/tool-budget.ts";
import { chosenBy, resolveConfig } from "../../../core/training/resolve-config.ts";
import { readTinkerVersion } from "../../../engine/tinker/version.ts";
import { recipe as atlas } from "../../../recipes/atlas/recipe.ts";
import { agentsOf } from "../../../recipes/deep-research/agents.ts";
import { recipe } from "../../../recipes/deep-research/recipe.ts";
import { openRecipe, openTools, openToolsModule } from "../../../recipes/registry.ts";
import { openRewards } from "../../../recipes/rewards.ts";
import { conversationOf } from "../../fakes/scripted-team.ts";
import { qwen3Files } from "../../fixtures/qwen3.ts";

const folder = mkdtempSync(join(tmpdir(), "research-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const GAIA = 'evaluation.suites=[{"name":"gaia","benchmark":"gaia","data":"d"}]';
const REASON = "tools.reason.model=openai:http://127.0.0.1:1/v1#q";
const FIXTURE = join(import.meta.dirname, "../../fixtures/benchmarks/questions.jsonl");
const resolved = (set: string[] = [], arm: Arm = "mgrpo"): RunConfig =>
  resolveConfig(recipe, { run: "r", seed: 1, arm, set, recipe: "recipes/deep-research" });
const openWith = async (set: string[], environment = {}) =>
  openTools(await openToolsModule("deep-research"), { config: resolved(set), environment });

test("the defaults are the paper's settings, with the agents and questions of atlas", async () => {
  expect(await openRecipe("recipes/deep-research")).toBe(recipe);
  const config = resolved();
  expect(config).toMatchObject({
    rolloutsPerQuestion: 8,
    algorithm: {
      mainReward: { format: 0.1, correct: 0.9 },
      subReward: { format: 0.1, correct: 0.4, expert: 0.5 },
      alignment: { mode: "resample", d: 8 },
    },
    curriculum: [
      { from: 0, levels: [1] },
      { from: 0.4, levels: expect.arrayContaining([1, 2, 3]) },
    ],
    evaluation: { every: 25, suites: [{ name: "held-out", runs: 3 }] },
  });
  const team = resolveConfig(atlas, { run: "r", seed: 1, arm: "mgrpo" });
  expect(config.agents).toEqual(team.agents);
  expect(recipe.questions).toBe(atlas.questions);
});

test.each(Arm.options.filter((arm) => arm !== "shared-policy"))(
  "arm %s resolves with shipped models or LLMs",
  (arm) => {
    const llms = ["agents.main.model=m", ...(arm === "single-agent" ? [] : ["agents.searcher.model=s"])];
    for (const set of [[], llms]) expect(resolved(set, arm).arm).toBe(arm);
  },
);

test("arm shared-policy resolves with one LLM for both agents, or the shipped model of both roles; two models are refused", () => {
  const searcherOf = (set: string[]) => resolved(set, "shared-policy").agents["searcher"];
  expect(searcherOf(["agents.main.model=m", "agents.searcher.model=m"])).toMatchObject({
    policy: "of:main",
    model: "m",
  });
  expect(searcherOf([])).toMatchObject({ policy: "of:main", model: expect.stringMatching(/models\/shared$/) });
  const two = ["agents.main.model=m", "agents.searcher.model=s"];
  expect(() => searcherOf(two)).toThrow(/agents\.searcher\.model: differs from that of 'main'/);
});

test.each<[Arm, string[]]>([
  ["shared-policy", []],
  ["mgrpo", ["agents.searcher.policy=of:main"]],
])("arm %s, set %j: an agent that shares an LLM's policy gets its model, adapter and LLM defaults", (arm, share) => {
  const set = ["agents.main.model=m", "agents.main.lora.rank=8", ...share];
  expect(resolved(set, arm).agents["searcher"]).toMatchObject({
    policy: "of:main",
    model: "m",
    lora: { rank: 8 },
    limits: { contextTokens: 4096 },
    system: expect.stringContaining("given one task by a planner"),
  });
});

test("an LLM that shares the policy of another gets the same adapter and optimizer, locally and on a Tinker server", () => {
  const shared = ["agents.main.model=m", "agents.searcher.model=m", "agents.searcher.policy=of:main"];
  const local = resolved(shared).agents;
  expect(local["searcher"]).toMatchObject({ policy: "of:main", lora: { rank: 16 }, optimizer: { maxGradientNorm: 1 } });
  const remote = resolved([...shared, "agents.main.policy=tinker:http://gpu1:8000"]).agents;
  expect(remote["searcher"]).toMatchObject({ policy: "of:main", lora: null, optimizer: { maxGradientNorm: null } });
  for (const { main, searcher } of [local, remote])
    expect([searcher?.lora, searcher?.optimizer]).toEqual([main?.lora, main?.optimizer]);
});

describe("an agent that is given a model", () => {
  test.each<[Arm, Record<string, RegExp>]>([
    ["mgrpo", { main: /You do not search yourself: you plan, delegate/, searcher: /given one task by a planner/ }],
    ["single-agent", { main: /^You answer questions that take research, with tools\./ }],
  ])("in arm %s, gets the system message of its role", (arm, messages) => {
    const set = Object.keys(messages).map((name) => `agents.${name}.model=m`);
    const systems = Object.entries(resolved(set, arm).agents).map(([name, { system }]) => [name, system]);
    const expected = Object.entries(messages).map(([name, message]) => [name, expect.stringMatching(message)]);
    expect(systems).toEqual(expected);
  });

  test("below a planner is a searcher, even with a calculator; the planner gets the tool reason", () => {
    const { agents } = atlas.config("mgrpo", () => undefined);
    const { main, searcher } = agents;
    if (!main || !searcher) throw new Error("atlas has no searcher");
    const tools = ["search", "visit", "calculate"];
    const chosen = chosenBy(["agents.searcher.model=m", GAIA, REASON]);
    const team = agentsOf({ main, searcher: { ...searcher, tools } }, chosen);
    expect(team["searcher"]).toMatchObject({ system: expect.stringContaining("given one task by a planner"), tools });
    expect(team["main"]?.tools).toEqual(["reason", "calculate"]);
  });

  test("gets a system message and trains an adapter; the other agent is unchanged; explicit settings win", () => {
    const { agents, limits } = resolved(["agents.main.model=/models/q", "agents.main.limits.turns=3"]);
    expect(agents["main"]).toMatchObject({
      model: "/models/q",
      system: expect.stringContaining("delegate"),
      lora: { rank: 16 },
      limits: { turns: 3, contextTokens: 4096 },
      delegates: ["searcher"],
    });
    expect(agents["searcher"]).toEqual(resolved().agents["searcher"]);
    expect(limits.rolloutSeconds).toBe(3600);
    expect(resolved(["agents.main.model=m", "agents.main.lora=null"]).agents["main"]?.lora).toBeNull();
  });

  test("on a Tinker server has no local adapter, no gradient clipping, and a long context", () => {
    const { agents } = resolved(["main", "searcher"].map((name) => `agents.${name}.policy=tinker:http://gpu1:8000`));
    for (const agent of Object.values(agents)) {
      expect(agent).toMatchObject({ lora: null, optimizer: { maxGradientNorm: null } });
      expect(agent.limits.contextTokens).toBe(32_768);
    }
  });

  test("behind an API must be frozen by the user, and its thinking cannot be set", () => {
    const set = ["agents.searcher.policy=openai:http://127.0.0.1:1/v1", "agents.searcher.model=q"];
    expect(() => resolved(set)).toThrow(/agents.searcher.trained: .* cannot be trained: set it to false/);
    const { agents } = resolved([...set, "agents.searcher.trained=false"]);
    expect(agents["searcher"]).toMatchObject({ lora: null, system: expect.stringContaining("report") });
    expect(() => resolved([...set, "agents.searcher.trained=false", "agents.searcher.thinking=false"])).toThrow(
      /agents.searcher.thinking: its server decides/,
    );
  });

  test("from a Qwen3 folder starts with a new adapter, thinking on or off, or on a Tinker server with none; thinking is refused for a model that cannot think", async () => {
    const model = join(folder, "Qwen3-tiny");
    mkdirSync(model);
    for (const [name, bytes] of qwen3Files(1)) writeFileSync(join(model, name), bytes);
    const both = [`agents.main.model=${model}`, `agents.searcher.model=${model}`];
    for (const thinking of ["true", "false"]) {
      const bases = await readBases(resolved([...both, `agents.main.thinking=${thinking}`]), "train");
      expect([...(bases.get("main")?.keys() ?? [])]).toContain("adapter_model.safetensors");
    }
    const remote = ["agents.main.policy=tinker:http://127.0.0.1:1", "agents.main.lora.rank=8"];
    const base = (await readBases(resolved([...both, ...remote]), "train")).get("main") ?? expect.fail("no base");
    expect([...base.keys()].filter((name) => name.startsWith("adapter_"))).toEqual([]);
    expect(readTinkerVersion(base).rank).toBe(8);
    const shipped = readBases(resolved(["agents.main.thinking=true"]), "train");
    await expect(shipped).rejects.toThrow(/model of agent 'main', .*has no enable_thinking/);
  });
});

describe("your own questions", () => {
  const fileOf = (name: string, ...ids: string[]) => {
    const file = join(folder, name);
    writeFileSync(file, ids.map((id) => `${JSON.stringify({ id, prompt: `What is ${id}?`, answer: id })}\n`).join(""));
    return file;
  };

  test("replace the recipe's; a suite evaluates those that are held out", async () => {
    const train = fileOf("train.jsonl", "a", "b");
    const alone = resolved([`questions.train=${train}`]);
    expect(alone.evaluation.suites).toEqual([]);
    expect(await questionsOf(recipe, alone)).toMatchObject({
      ...{ train: [{ prompt: "What is a?" }, { level: 1 }], heldOut: [] },
    });
    const both = resolved([`questions.train=${train}`, `questions.heldOut=${fileOf("held-out.jsonl", "c")}`]);
    expect(both.evaluation.suites).toMatchObject([{ name: "held-out", runs: 3, questions: 0 }]);
    expect((await questionsOf(recipe, both)).heldOut).toMatchObject([{ id: "jsonl:c" }]);
    // The same holds for any recipe.
    const ofAtlas = resolveConfig(atlas, {
      run: "r",
      seed: 1,
      arm: "mgrpo",
      set: [`questions.train=${train}`, "evaluation.suites=[]"],
    });
    expect((await questionsOf(atlas, ofAtlas)).train).toHaveLength(2);
  });

  test.each<[string, () => unknown, RegExp]>([
    ["a missing file", () => questionsOf(recipe, resolved(["questions.train=gone.jsonl"])), /gone.jsonl: no such file/],
    [
      "a question on both sides",
      () =>
        questionsOf(
          recipe,
          resolved([`questions.train=${fileOf("t.jsonl", "a")}`, `questions.heldOut=${fileOf("h.jsonl", "a")}`]),
        ),
      /h.jsonl: its question 'a' is also in .*t.jsonl/,
    ],
    [
      "a question of the recipe on both sides",
      () => {
        const { train } = atlas.questions(1);
        return questionsOf({ name: "mine", questions: () => ({ train, heldOut: train.slice(0, 1) }) }, resolved([]));
      },
      /recipe 'mine': question '.*' is trained on and held out/,
    ],
    [
      "a suite without held-out questions",
      () => resolved(["questions.train=t.jsonl", 'evaluation.suites=[{"name":"mine"}]']),
      /questions.heldOut: suite 'mine' asks the held-out questions: set it to a file/,
    ],
  ])("refused: %s", async (_, ask, line) => {
    await expect(async () => ask()).rejects.toThrow(line);
  });
});

test("with your own questions, scoring sub-agents requires a judge; without one, answers are compared", async () => {
  const open = (...more: string[]) => openRewards(resolved([`questions.train=${FIXTURE}`, ...more]), {});
  await expect(open()).rejects.toThrow(/requires a judge: set judge.model.*, or algorithm.subReward.expert to 0/);
  const own = 'agents.searcher.algorithm.subReward={"format":0.1,"correct":0.4,"expert":0.5}';
  await expect(open("algorithm.subReward.expert=0", own)).rejects.toThrow(
    /or agents.searcher.algorithm.subReward.expert to 0/,
  );
  const rewards = await open("algorithm.subReward.expert=0");
  const [question] = (await questionsOf(recipe, resolved([`questions.train=${FIXTURE}`]))).train;
  if (!question) throw new Error("no question");
  expect(await rewards.correct(question, conversationOf("?", " 7"))).toBe(1);
  expect(await rewards.expert(question, "searcher", conversationOf("?", "7"))).toBe(0);
  await expect(open("judge.model=openai#gpt-5-mini")).rejects.toThrow(/OPENAI_API_KEY holds no key/);
  const judged = "judge.model=openai:http://127.0.0.1:1/v1#q";
  expect((await open(judged)).judge).toMatch(/^[0-9a-f]{16}$/);
  await expect(open(judged, "algorithm.turnWeight=0.5")).rejects.toThrow(
    /a judge rewards no turns, and turnWeight of 'main' is above 0: set it to 0/,
  );
});

describe("tools", () => {
  test("are those of atlas until a search engine is named, and use atlas's real world for questions that are not atlas's", async () => {
    const { tools } = await openWith([]);
    const [question] = (await questionsOf(recipe, resolved([`questions.train=${FIXTURE}`]))).train;
    const context = {
      question,
      budget: openToolBudget(undefined),
      responseCharacters: 800,
      signal: new AbortController().signal,
    };
    expect(await tools.get("visit")?.run({ title: "Peru" } as never, context as never)).toContain("Lima");
  });

  test("a model for the tool reason gives it to the main agent; a budget in USD needs the model's price; web tools need a search engine and its key", async () => {
    const { tools, close } = await openWith([REASON]);
    expect([...tools.keys()].sort()).toEqual(["calculate", "read_attachment", "reason", "search", "visit"]);
    await close();
    const { agents } = resolved([REASON]);
    expect([agents["main"]?.tools, agents["searcher"]?.tools]).toEqual([
      ["reason", "calculate"],
      ["search", "visit"],
    ]);
    await expect(openWith([REASON, "tools.budget.run.usd=1"])).rejects.toThrow(
      /tools\.reason\.usdPerMillionTokens: tools\.budget\.run\.usd cannot count this model's tokens without a price/,
    );
    await expect(openWith(["tools.search.backend=serper"])).rejects.toThrow(
      /SERPER_API_KEY, which is empty or not set/,
    );
    const web = await openWith(["tools.search.backend=serper"], { SERPER_API_KEY: "k" });
    expect(web.tools.get("visit")?.description).toContain("web page");
    await web.close();
    await expect(openWith(["tools.visit.seconds=3"])).rejects.toThrow(/tools\.visit does nothing without a search/);
  });

  test("the settings for the web in README.md are accepted", async () => {
    const page = readFileSync(join(import.meta.dirname, "../../../recipes/deep-research/README.md"), "utf8");
    const section = page.slice(page.indexOf("## The web"), page.indexOf("## Models"));
    const set = [...section.matchAll(/--set (?:'(.+)'|(\S+))/g)].map(([, quoted, plain]) => quoted ?? plain ?? "");
    expect(set).toHaveLength(3);
    const { tools, close } = await openWith(set, { SERPER_API_KEY: "k", OPENAI_API_KEY: "k" });
    expect([...tools.keys()].sort()).toEqual(["calculate", "read_attachment", "reason", "search", "visit"]);
    await close();
  });

  test("a main agent that is asked the questions of GAIA can read their attachments only if it is an LLM", () => {
    const toolsOf = (...set: string[]) => Object.values(resolved([GAIA, ...set]).agents).map(({ tools }) => tools);
    const searching = ["search", "visit"];
    expect(toolsOf("agents.main.model=m")).toEqual([["read_attachment", "calculate"], searching]);
    expect(toolsOf()).toEqual([["calculate"], searching]);
  });
});
