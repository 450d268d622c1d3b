/** @file The preflight: everything that is wrong is reported at once, and the tools are opened at most once. */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { preflight, preflightEvaluation, type Site } from "../../cli/local/preflight.ts";
import { checkRunsFolder, createRunFolder, readConfig } from "../../cli/local/run-folder.ts";
import { withStoredConfig } from "../../cli/team-file.ts";
import { resolveConfig } from "../../core/training/resolve-config.ts";
import { openRecipe } from "../../recipes/registry.ts";
import { serveHttp } from "../fakes/http-server.ts";
import { freePort } from "../fakes/proxies.ts";
import { chdirToProject, RELAY, relaySettings } from "./command-line.ts";
import { printed } from "./printed.ts";

const folder = chdirToProject();
afterEach(() => rmSync(join(folder, "runs"), { recursive: true, force: true }));

const site = { workers: "here", models: "read", begins: () => true, checkStore: checkRunsFolder } as const;

async function relay(...settings: string[]) {
  const set = [...relaySettings().filter((word) => word !== "--set"), ...settings];
  return resolveConfig(await openRecipe(RELAY), { run: "r", seed: 1, arm: "mgrpo", set, recipe: RELAY });
}

test("if nothing is wrong, there are no findings, and every agent has its base model", async () => {
  const { findings, bases } = await preflight(await relay(), site);
  expect(findings.all).toEqual([]);
  expect([...bases.keys()]).toEqual(["main", "searcher"]);
});

test("if a runs folder that cannot be written is the only finding, the error has its code", async () => {
  writeFileSync("runs", "");
  const { findings } = await preflight(await relay(), site);
  expect(() => findings.reportAndThrow()).toThrow(expect.objectContaining({ code: "storage-unwritable" }));
});

test("one pass finds a missing model, two unknown tools, an unknown engine and a runs folder that is a file", async () => {
  writeFileSync("runs", "");
  const config = await relay(
    "agents.main.model=nowhere",
    'agents.searcher.tools=["sextant"]',
    "agents.searcher.policy=torch",
    'agents.main.tools=["abacus"]',
  );
  const { findings } = await preflight(config, site);
  const lines = findings.all.map(({ message }) => message);
  expect(lines).toHaveLength(5);
  expect(lines.join("\n")).toMatch(/agents\.main\.model: no checkpoint folder 'nowhere'/);
  expect(lines.join("\n")).toMatch(/the recipe's tools\.ts has no tool 'sextant'/);
  expect(lines.join("\n")).toMatch(/the recipe's tools\.ts has no tool 'abacus'/);
  expect(lines.join("\n")).toMatch(/'torch'/);
  expect(lines.join("\n")).toMatch(/runs cannot be written \(ENOTDIR\): run mgrpo in a folder that you can write to/);
  expect(() => findings.reportAndThrow()).toThrow(lines.join("\n"));
});

test("a setting that nothing would read is refused when a run begins, and does not keep a started run from continuing", async () => {
  const config = await relay("algorithm.constantTokens=100", "algorithm.kl.estimator=k1");
  const messages = async (begins: boolean) => {
    const { findings } = await preflight(config, { ...site, begins: () => begins });
    return findings.all.map(({ message }) => message);
  };
  expect(await messages(true)).toEqual([
    expect.stringContaining("algorithm.constantTokens: does nothing under aggregation trajectory-mean"),
    expect.stringContaining("algorithm.kl.estimator: does nothing at kl.coefficient 0"),
  ]);
  expect(await messages(false)).toEqual([]);
});

test("the config of a started run can be read, and its team evaluated, even with settings that nothing reads", async () => {
  const config = await relay("algorithm.constantTokens=100", "algorithm.kl.estimator=k1", "algorithm.epsilon=0.5");
  const old = createRunFolder(config);
  expect(readConfig(old)).toEqual(config);
  const recipe = await openRecipe(RELAY);
  const choice = { run: "eval", seed: 1, arm: "mgrpo", set: ["steps=1"], recipe: RELAY } as const;
  expect(resolveConfig(withStoredConfig(recipe, readConfig(old)), choice).algorithm).toEqual(config.algorithm);
  expect([...(await preflightEvaluation(config)).keys()]).toEqual(["main", "searcher"]);
});

test("before an evaluation, too, one pass finds a missing model and an unknown tool", async () => {
  const config = await relay("agents.main.model=nowhere", 'agents.searcher.tools=["sextant"]');
  await expect(preflightEvaluation(config)).rejects.toThrow(/no tool 'sextant'.*\n.*no checkpoint folder 'nowhere'/);
});

test("before an evaluation, one pass finds rewards that cannot be opened and a missing model", async () => {
  const own = join(folder, "unrewarded");
  mkdirSync(own, { recursive: true });
  writeFileSync(join(own, "rewards.mjs"), "export const rewards = () => { throw new Error('no rubric'); };");
  writeFileSync(join(own, "tools.mjs"), "export const tools = new Map();");
  const config = await relay("agents.main.model=nowhere");
  const evaluation = preflightEvaluation({ ...config, recipe: own });
  await expect(evaluation).rejects.toThrow(/rewards\(\) threw Error: no rubric.*no checkpoint folder 'nowhere'/s);
});

test("a model server that is down is reported once, before the run; one that answers 404 is not, and no server is asked if the workers are elsewhere", async () => {
  const running = await serveHttp((_, response) => response.writeHead(404).end());
  const stopped = `http://127.0.0.1:${await freePort()}/v1`;
  const config = await relay(
    `agents.main.policy=openai:${stopped}`,
    `agents.searcher.policy=openai:${running}/v1`,
    "agents.main.trained=false",
    "agents.searcher.trained=false",
    `judge.model=openai:${stopped}#judge`,
  );
  const fault = new RegExp(
    `^model '.*' at ${stopped} does not answer \\(.*ECONNREFUSED.*\\): check that the server is running, and check its URL$`,
  );
  const found = async (workers: Site["workers"]) => {
    const { findings } = await preflight(config, { ...site, workers });
    return findings.all.flatMap(({ message }) => (message.includes("does not answer") ? message : []));
  };
  expect(await found("here")).toEqual([expect.stringMatching(fault)]);
  expect(await found("elsewhere")).toEqual([]);
  await expect(preflightEvaluation(config)).rejects.toMatchObject({ message: expect.stringMatching(fault) });
});

test("a tool that cannot be described to an agent is refused: one without a Zod schema, or one whose key is not its name", async () => {
  const own = join(folder, "unshown");
  mkdirSync(own, { recursive: true });
  writeFileSync(join(own, "rewards.mjs"), "export const rewards = { correct: () => 1, expert: () => 1 };");
  const tool = "{ name: 'find', description: '', parameters: { type: 'object' }, run: async () => '' }";
  writeFileSync(join(own, "tools.mjs"), `export const tools = new Map(["find", "seek"].map((key) => [key, ${tool}]));`);
  const { agents, ...config } = await relay();
  const messagesWith = async (name: string) => {
    const mine = Object.entries(agents).map(([one, agent]) => [one, { ...agent, tools: [name], policy: "compiled" }]);
    const team = { ...config, recipe: own, agents: Object.fromEntries(mine) };
    return (await preflight(team, { ...site, models: "stored" })).findings.all.map(({ message }) => message);
  };
  expect(await messagesWith("find")).toEqual([
    expect.stringMatching(/tool 'find': its parameters are not a Zod 4 schema: write z\.strictObject/),
  ]);
  const misnamed = (agent: string) =>
    expect.stringMatching(`agents.${agent}.tools: .* has tool 'find' under the key 'seek': use its name as the key`);
  expect(await messagesWith("seek")).toEqual([misnamed("main"), misnamed("searcher")]);
});

test("tools that a function opens are opened and closed once, and not at all if the workers are elsewhere", async () => {
  const own = join(folder, "counting");
  mkdirSync(own, { recursive: true });
  writeFileSync(join(own, "rewards.mjs"), "export const rewards = { correct: () => 1, expert: () => 1 };");
  const tools =
    "async () => { calls.push('open'); return { tools: new Map(), close: async () => calls.push('close') }; }";
  writeFileSync(join(own, "tools.mjs"), `export const calls = (globalThis.calls = []); export const tools = ${tools};`);
  const { agents, ...config } = await relay();
  const models = Object.entries(agents).map(([name, agent]) => [name, { ...agent, tools: [], policy: "compiled" }]);
  const mine = { ...config, recipe: own, agents: Object.fromEntries(models) };
  await preflight(mine, { ...site, models: "stored" });
  expect(Reflect.get(globalThis, "calls")).toEqual(["open", "close"]);
  await preflight(mine, { ...site, workers: "elsewhere", models: "stored" });
  expect(Reflect.get(globalThis, "calls")).toEqual(["open", "close"]);
});

test("doctor reports that runs cannot be written here, and its hints write commands as the user must type them", async () => {
  writeFileSync("runs", "");
  const lines = (await printed("doctor")).trim().split("\n");
  const disk = lines.map((line) => JSON.parse(line)).find(({ name }) => name === "disk");
  process.exitCode = 0;
  expect(lines.join()).not.toContain("`mgrpo ");
  expect(disk).toMatchObject({ state: "broken", found: expect.stringMatching(/runs cannot be written \(ENOTDIR\)/) });
});
