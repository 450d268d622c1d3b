/** @file Where demonstrations come from: correct rollouts with their sub-agents, lines of a file, or a recipe; and the errors if there are none. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import * as z from "zod";
import { examplesOfBranches, ofSteps, type SampledBranches } from "../../cli/sft/correct-rollouts.ts";
import { asSampled, openDemonstrations } from "../../cli/sft/sources.ts";
import { objectKeys } from "../../core/contracts/keys.ts";
import { Outcome } from "../../core/contracts/rollout.ts";
import { openRecipe } from "../../recipes/registry.ts";
import { split } from "../../sft/batches.ts";
import type { TargetAgent } from "../../sft/check.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { config, fillFinishedRun, finishedRun, storeOfFinishedRun } from "./records.ts";

const folder = mkdtempSync(join(tmpdir(), "mgrpo-sft-sources-"));
afterAll(() => rmSync(folder, { recursive: true }));

const target = (agent: string): TargetAgent => ({
  agent,
  config: {
    system: "",
    limits: { turns: 3, turnTokens: 64, contextTokens: 512, calls: 2, responseCharacters: 100 },
  },
  toolbox: { parameters: new Map([["search", z.strictObject({ query: z.string() })]]) },
});

/** A store whose wrong rollout, 0/0/1, has a conversation too. */
async function storeWithWrongRollout() {
  const store = await storeOfFinishedRun();
  const { outcome } = finishedRun;
  if (outcome.status !== "finished") throw new Error("the rollout failed");
  const wrong: Outcome = { ...outcome, address: { ...outcome.address, rollout: 1 }, invocations: [] };
  await store.objects.commit(objectKeys.outcome(wrong.address), new TextEncoder().encode(JSON.stringify(wrong)));
  return store;
}

test("a correct rollout gives demonstrations for the main agent and the sub-agents that answered; a wrong one gives none", async () => {
  const store = await storeWithWrongRollout();
  const found = await ofSteps(store, config, 1, 0.9);
  expect(found.map(({ agent, where }) => [agent, where])).toEqual([
    ["main", `rollout 0/0/0 of '${config.run}'`],
    ["searcher", `rollout 0/0/0 of '${config.run}'`],
  ]);
  const [main] = found;
  expect(main?.demonstration.turns.map(({ responses }) => responses)).toEqual([["Lisbon"]]);
  expect(await ofSteps(store, config, 1, 1.1)).toEqual([]);
});

test("a wrong answer is not a demonstration, whatever reward its format earns", async () => {
  const found = await ofSteps(await storeWithWrongRollout(), config, 1, 0);
  expect(found.map(({ where }) => where)).toEqual(Array(2).fill(`rollout 0/0/0 of '${config.run}'`));
});

test("a sub-agent's conversation that ended without an answer is not a demonstration", async () => {
  const store = memoryStore();
  const { invocation } = finishedRun;
  const conversation = { ...invocation.conversation, stop: "turn-limit" as const, answer: null };
  await fillFinishedRun(store, { ...finishedRun, invocation: { ...invocation, conversation } });
  expect((await ofSteps(store, config, 1, 0.9)).map(({ agent }) => agent)).toEqual(["main"]);
});

test("a rollout with an expired invocation is left out", async () => {
  const store = await storeOfFinishedRun();
  await store.objects.delete([objectKeys.invocation(config.run, 0, finishedRun.invocation.id)]);
  expect(await ofSteps(store, config, 1, 0.9)).toEqual([]);
});

test("agents of an app that share a policy have one tokenizer", async () => {
  const store = memoryStore();
  const { outcome, ...run } = finishedRun;
  if (outcome.status !== "finished") throw new Error("the rollout failed");
  const trajectory = { agent: "main", version: 0, tokens: [1, 2], actions: [[1, 2]], logProbs: [-1] } as const;
  const ofApp = Outcome.parse({ ...outcome, trajectory, app: { branches: [], counts: {} } });
  await fillFinishedRun(store, { ...run, outcome: ofApp });
  const files = { "tokenizer.json": { sha256: "7".repeat(64), bytes: 1 } };
  const manifest = { run: config.run, agent: "main", version: 0, trained: false, files, stats: null, seconds: null };
  const bytes = new TextEncoder().encode(JSON.stringify(manifest));
  await store.objects.commit(objectKeys.manifest(config.run, "main", 0), bytes);
  const searcher = { ...(config.agents["searcher"] ?? expect.fail()), policy: "of:main" };
  const shared = { ...config, agents: { ...config.agents, searcher } };
  const [main, sub] = await ofSteps(store, shared, 1, 0.9);
  expect(main?.sampled).toEqual({ examples: [{ tokens: [1, 2], turns: [[1, 2]] }], tokenizerSha256: "7".repeat(64) });
  expect(sub).toMatchObject({ agent: "searcher", sampled: { tokenizerSha256: "7".repeat(64) } });
});

test("branches that share a turn of an app's agent have the same prompt, so that they are held out together", () => {
  // The first two share the prompt [1, 2] and the turn [3, 4], and each has a second turn of its own; the third has another first message.
  const examples = examplesOfBranches([
    {
      tokens: [1, 2, 3, 4, 5, 6],
      actions: [
        [2, 4],
        [5, 6],
      ],
    },
    { tokens: [1, 2, 3, 4, 7, 8], actions: [[5, 6]] },
    { tokens: [1, 9, 3, 4, 7, 8], actions: [[4, 6]] },
  ]);
  expect(examples.map(({ promptTokens }) => promptTokens)).toEqual([undefined, 2, undefined]);
  const shared = examples.slice(0, 2);
  for (let share = 0.05; share < 1; share += 0.05) {
    const { training } = split(shared, share, 9, "prompt");
    expect([0, 2]).toContain(training.length);
  }
});

test("the error for an app's agent says why its tokens cannot be used, or why there are none", () => {
  const tokenizerSha256 = "7".repeat(64);
  const read = (sampled: SampledBranches) => () => {
    const one = { agent: "main", where: "rollout 0/0/0", demonstration: { prompt: "q", turns: [] }, sampled };
    return asSampled([one], "main", "by-app", tokenizerSha256);
  };
  const example = { tokens: [1, 2], turns: [[1, 2] as const] };
  expect(read({ examples: [example], tokenizerSha256 })()).toEqual([{ example, where: "rollout 0/0/0" }]);
  expect(read({ examples: [example], tokenizerSha256: "8".repeat(64) })).toThrow(/has another tokenizer/);
  expect(read({ examples: [], tokenizerSha256: "" })).toThrow(/agent 'main' was behind an API in 'by-app'/);
  expect(read({ examples: [], tokenizerSha256 })).toThrow(
    /the app did not call agent 'main': train another with --agent/,
  );
});

const line = (agent: string | undefined, answer: string) =>
  JSON.stringify({
    messages: [
      { role: "user", content: "q" },
      { role: "assistant", content: answer },
    ],
    agent,
  });

async function fromFile(lines: readonly string[], only?: string) {
  const demonstrations = join(folder, "demos.jsonl");
  writeFileSync(demonstrations, lines.join("\n"));
  return openDemonstrations(await openRecipe("atlas"), config, { demonstrations }, only);
}

test("a file's lines go to the agents that they name; lines that name none go to the agent of --agent, and are refused without it", async () => {
  const named = await fromFile([line("main", "a"), line("searcher", "b")]);
  expect(named(target("searcher"), "").map(({ where }) => where)).toEqual([`${join(folder, "demos.jsonl")}:2`]);
  const mixed = await fromFile([line(undefined, "a"), line("searcher", "b")], "main");
  expect(mixed(target("main"), "").map(({ where }) => where)).toEqual([`${join(folder, "demos.jsonl")}:1`]);
  await expect(fromFile([line("main", "a"), line(undefined, "b")])).rejects.toThrow(
    'demos.jsonl:2 does not say which agent it is for: add "agent", or train one with --agent',
  );
});

test("a line for an agent that the team does not have is refused, not dropped", async () => {
  await expect(fromFile([line("main", "a"), line("seracher", "b")])).rejects.toThrow(
    "demos.jsonl:2 is for agent 'seracher': the team has main, searcher",
  );
});

test("the error for a file whose lines name the app's agents says how to rename them", async () => {
  const traced = await fromFile([line("Research Assistant", "a"), line("Research Assistant", "b")], "searcher");
  expect(() => traced(target("searcher"), "")).toThrow(
    `it has some of agents that the team does not have, such as 'Research Assistant': if these are 'searcher', change the lines' "agent", or import the traces with --as searcher`,
  );
});

test("a file without demonstrations of one agent: another can be trained, unless the two share a policy", async () => {
  const demonstrations = join(folder, "main-only.jsonl");
  const messages = [
    { role: "user", content: "q" },
    { role: "assistant", content: "a" },
  ];
  writeFileSync(demonstrations, JSON.stringify({ agent: "main", messages }));
  const recipe = await openRecipe("atlas");
  const searcher = { ...(config.agents["searcher"] ?? expect.fail()), policy: "of:main" };
  const shared = { ...config, agents: { ...config.agents, searcher } };
  const fault = `${demonstrations} has no demonstrations of agent 'searcher': add some`;
  const apart = await openDemonstrations(recipe, config, { demonstrations });
  expect(() => apart(target("searcher"), "")).toThrow(`${fault}, or train another with --agent`);
  const together = await openDemonstrations(recipe, shared, { demonstrations }, "main");
  expect(() => together(target("searcher"), "")).toThrow(`${fault} for every agent that shares its policy`);
});

test("a recipe's demonstration that no rollout could have is refused: one without turns, or one that continues after a turn without responses", async () => {
  const recipe = await openRecipe("atlas");
  const turn = (text: string, ...responses: string[]) => ({ text, responses });
  const read = async (...turns: ReturnType<typeof turn>[]) => {
    const source = await openDemonstrations({ ...recipe, demonstrations: () => [{ prompt: "q", turns }] }, config, {});
    return source(target("main"), "");
  };
  expect(await read(turn("a mistake", "try again"), turn("<answer>a</answer>"))).toHaveLength(1);
  await expect(read(turn("a", "r"), turn("b"), turn("c"))).rejects.toThrow(
    "demonstration 0 of agent 'main' in recipe 'atlas': turn 2 has no responses, so a rollout would end there",
  );
  await expect(read()).rejects.toThrow("in recipe 'atlas': it has no turns");
});

test("a recipe's demonstrations that never end, like those of a base model, are refused", async () => {
  const recipe = await openRecipe("atlas");
  const [base] = recipe.baseModels ?? [];
  function* endless() {
    const [first] = base?.demonstrations() ?? [];
    while (first) yield first;
  }
  const source = await openDemonstrations({ ...recipe, demonstrations: endless }, config, {});
  expect(() => source(target("main"), "")).toThrow(
    "recipe 'atlas' has more than 200000 demonstrations of agent 'main': end the sequence earlier, or give them as a file",
  );
});

test("the error for an agent without demonstrations says to add them; the error for a file that cannot be read names it", async () => {
  const recipe = await openRecipe("atlas");
  const none = await openDemonstrations({ ...recipe, demonstrations: () => [] }, config, {});
  expect(() => none(target("main"), "")).toThrow(/has no demonstrations of agent 'main' in arm 'mgrpo': add them/);
  const missing = openDemonstrations(recipe, config, { demonstrations: "nowhere.jsonl" });
  await expect(missing).rejects.toThrow("--demonstrations nowhere.jsonl: no such file");
  const notAFile = openDemonstrations(recipe, config, { demonstrations: folder });
  await expect(notAFile).rejects.toMatchObject({
    code: "demonstrations-invalid",
    message: expect.stringContaining(`--demonstrations ${folder}: cannot be read (EISDIR`),
  });
  const latin1 = join(folder, "latin1.jsonl");
  writeFileSync(latin1, line("main", "é"), "latin1");
  await expect(openDemonstrations(recipe, config, { demonstrations: latin1 })).rejects.toMatchObject({
    code: "demonstrations-invalid",
    message: `--demonstrations ${latin1}: not UTF-8 text: convert it to UTF-8, or decompress it`,
  });
});
