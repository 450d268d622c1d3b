/** @file `mgrpo serve`: an app whose team was trained through the gateway runs against the server with only base URL and key changed. */
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import OpenAI from "openai";
import type { ResponseInput, ResponseInputItem } from "openai/resources/responses/responses";
import { afterEach, expect, test } from "vitest";
import { calculateText } from "../../adapters/tools/calculate.ts";
import { planServing, refuseTemperature } from "../../cli/serve/config.ts";
import { openServedAgents } from "../../cli/serve/open-agents.ts";
import { answerQuestion } from "../../examples/ai-sdk-team/app.ts";
import { chatApp } from "../../gpu-workers/gateway/api/app.ts";
import { chatCompletions } from "../../gpu-workers/gateway/api/chat-reply.ts";
import { servedTeam } from "../../gpu-workers/gateway/served-team.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { factsOf } from "../../recipes/atlas/questions/facts.ts";
import { recipe as atlas } from "../../recipes/atlas/recipe.ts";
import { pageText, searchTitles } from "../../recipes/atlas/tools.ts";
import { setEnvironment } from "../fakes/environment.ts";
import { complete, relayApp } from "../fixtures/relay/app.ts";
import { question } from "../fixtures/relay/questions.ts";
import { mgrpo, projectOfFile, relaySettings, startMgrpoWith, trainRelay } from "./command-line.ts";
import { printedJson } from "./printed.ts";

const KEY = "a-key-for-tests-only";
const folder = projectOfFile();
const children = new Set<ReturnType<typeof startMgrpoWith>>();
afterEach(() => {
  for (const child of children) child.kill("SIGKILL");
});

async function startServer(more: NodeJS.ProcessEnv, ...args: string[]) {
  const child = startMgrpoWith(more, folder, "serve", ...args, "--port", "0");
  children.add(child);
  if (!child.stdout) throw new Error("no output");
  for await (const line of createInterface(child.stdout)) {
    return { child, opening: JSON.parse(line) as { baseURL: string; apiKey?: string; models: string[] } };
  }
  throw new Error("the server printed nothing");
}

test("a trained run is served to its app: models are listed, seeds are honored, bad requests are refused, and Ctrl-C ends it", async () => {
  const app = ["--set", "runner=recipe", "--set", "agents.searcher.tools=[]", ...relaySettings()];
  expect(await mgrpo(folder, ...trainRelay("served", "--steps", "1", ...app))).toMatchObject({ code: 0 });
  const { child, opening } = await startServer({}, "served");
  const { baseURL, apiKey = expect.fail(), models } = opening;
  expect(models).toEqual(["main", "searcher"]);
  const access = (model: string) => ({ baseURL, apiKey, model, name: model });
  const signal = new AbortController().signal;
  const agents = { main: access("main"), searcher: access("searcher") };
  const asked = question("amber", "train");
  // Requests without a seed have different draws, and a barely trained team is often wrong.
  await expect.poll(() => relayApp({ question: asked, agents, signal })).toEqual({ answer: "birch" });

  const listed = await fetch(`${baseURL}/models`, { headers: { authorization: `Bearer ${apiKey}` } });
  expect(await listed.json()).toMatchObject({ data: [{ id: "main" }, { id: "searcher" }] });
  const messages = [{ role: "user", content: asked.prompt }];
  const tools = [{ type: "function", function: { name: "delegate" } }];
  const distinctReplies = async (more: object) =>
    new Set(
      await Promise.all(
        Array.from({ length: 8 }, async () => {
          const { choices } = await complete(access("main"), { messages, tools, ...more });
          return JSON.stringify([choices[0]?.message.content, choices[0]?.message.tool_calls?.map((c) => c.function)]);
        }),
      ),
    );
  expect((await distinctReplies({ seed: 3 })).size).toBe(1);
  expect((await distinctReplies({ user: "someone" })).size).toBeGreaterThan(1);
  await expect(complete({ ...access("main"), apiKey: "another key" }, { messages })).rejects.toThrow(
    "401 invalid_api_key",
  );
  await expect(complete(access("nobody"), { messages })).rejects.toThrow("404 model_not_found");
  await expect(complete(access("main"), { messages, temperature: -1 })).rejects.toThrow(
    "400 invalid_value: temperature",
  );
  await expect(complete(access("main"), { messages, top_p: "all" })).rejects.toThrow("400 invalid_value: top_p");
  const long = [{ role: "user", content: "word ".repeat(5000) }];
  await expect(complete(access("main"), { messages: long })).rejects.toThrow("400 context_length_exceeded");

  const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
  const request = { model: "searcher", instructions: "Find it.", temperature: 0 };
  const first = await client.responses.create({ ...request, input: "look up amber" });
  expect(first.output_text).not.toBe("");
  // Items of a response may be sent back as they are, ids included.
  const input: ResponseInput = [{ role: "user", content: "look up amber" }, ...(first.output as ResponseInputItem[])];
  const next = await client.responses.create({ ...request, input: [...input, { role: "user", content: "again" }] });
  expect(next.usage?.input_tokens).toBeGreaterThan(first.usage?.total_tokens ?? 0);
  const chained = client.responses.create({ ...request, input: "again", previous_response_id: first.id });
  await expect(chained).rejects.toThrow(
    /400 previous_response_id: no response .* send the whole conversation as input/,
  );

  child.kill("SIGINT");
  expect(await once(child, "exit")).toEqual([0, null]);
});

test.each(["eval", "serve"])("%s of a run that is in a store, not here, says to export it", async (command) => {
  const restore = setEnvironment({ MGRPO_TABLE: "table", MGRPO_BUCKET: "bucket" });
  await expect(printedJson(command, "far")).rejects.toThrow(
    /for a run in the store, give the folder that `.* export far` writes$/,
  );
  restore();
  await expect(printedJson(command, "far")).rejects.not.toThrow("export");
});

test("other machines are served only with the user's own key, which is not printed", async () => {
  const refused = (...args: string[]) => expect(printedJson("serve", ...args, "--port", "0")).rejects;
  await refused("served", "--host", "0.0.0.0").toThrow("set MGRPO_SERVE_KEY to a secret");
  await refused("nothing").toThrow("no run and no folder of models 'nothing'");
  const restore = setEnvironment({ MGRPO_SERVE_KEY: "short" });
  await refused("served").toThrow("MGRPO_SERVE_KEY: set it to at least 16 ASCII characters");
  restore();
  // Another notation of 0.0.0.0.
  const { opening } = await startServer({ MGRPO_SERVE_KEY: KEY }, "served", "--host", "0");
  expect(opening.apiKey).toBeUndefined();
  const { hostname: host, port } = new URL(opening.baseURL);
  expect(host).toBe(hostname().toLowerCase());
  const baseURL = `http://127.0.0.1:${port}/v1`;
  const messages = [{ role: "user", content: "look up amber" }];
  expect(await complete({ baseURL, apiKey: KEY, model: "searcher" }, { messages })).toHaveProperty("choices");
});

test("after Ctrl-C while the models load, nothing is served; models that cannot be opened leave no signal handler behind", async () => {
  const before = process.listenerCount("SIGINT");
  const interrupt = (event: string | symbol, onSignal: () => void) => {
    if (event === "SIGINT") queueMicrotask(onSignal);
  };
  process.on("newListener", interrupt);
  try {
    expect(await printedJson("serve", "recipes/atlas/models", "--port", "0")).toEqual([]);
  } finally {
    process.off("newListener", interrupt);
  }
  const tooLong = ["--set", "agents.main.limits.contextTokens=1000000"];
  await expect(printedJson("serve", "recipes/atlas/models", "--port", "0", ...tooLong)).rejects.toThrow(
    /contextTokens/,
  );
  expect(process.listenerCount("SIGINT")).toBe(before);
});

test("a model's folder with a name that no agent can have is refused, and the error names the folder", async () => {
  const models = join(folder, "downloaded");
  mkdirSync(join(models, "Qwen3-0.6B"), { recursive: true });
  writeFileSync(join(models, "Qwen3-0.6B/config.json"), "{}");
  await expect(planServing(models, [])).rejects.toThrow(
    /Qwen3-0\.6B: a model's folder is named after its agent: 1 to 31 lower-case letters/,
  );
});

test("a setting that serving would ignore is refused; a temperature holds for requests that set none, and the time limit of a turn for all", async () => {
  const plan = (setting: string) => planServing("recipes/atlas/models", [setting]);
  for (const [setting, path] of [
    ["agents.main.workers=2", "agents.main.workers"],
    ["budget.usd=1", "budget"],
    ["rolloutsPerQuestion=4", "rolloutsPerQuestion"],
    ["algorithm.clipHigh=0.3", "algorithm"],
    ["liveness.leaseSeconds=60", "liveness"],
    ["limits.toolSeconds=9", "limits.toolSeconds"],
    ['agents.main={"temperature":0.5,"workers":2}', "agents.main.workers"],
  ])
    await expect(plan(setting ?? "")).rejects.toThrow(`--set ${setting}: serve does not read ${path}: leave it out`);
  expect((await plan("agents.main.temperature=0.5")).config.agents["main"]?.temperature).toBe(0.5);
  expect((await plan("limits.turnSeconds=9")).config.limits.turnSeconds).toBe(9);
});

test("a temperature that a Tinker server cannot sample at is refused before the team is served", async () => {
  const { config } = await planServing("recipes/atlas/models", []);
  const { main = expect.fail() } = config.agents;
  const served = { agents: { ...config.agents, main: { ...main, policy: "tinker:http://127.0.0.1:8000" } } };
  expect(() => refuseTemperature(served, 0.7)).toThrow(
    "--temperature 0.7: agent 'main' is on a Tinker server, which computes log-probs at temperature 1: set it to 1, or to 0 (greedy)",
  );
  for (const temperature of [undefined, 0, 1]) refuseTemperature(served, temperature);
  refuseTemperature(config, 0.7);
});

test("an app gets the same answer from a folder of models, served greedily, as in a rollout of `mgrpo ask`", async () => {
  const { config } = await planServing("recipes/atlas/models", []);
  const { agents, close } = await openServedAgents(config);
  try {
    const served = servedTeam(agents, 0);
    const host = { teamOf: () => served, dialects: [chatCompletions], honored: [], why: "", logsRefusals: false };
    const server = chatApp(
      "",
      host,
      createLog(() => {}),
    );
    const fetch = async (url: string | URL | Request, init?: RequestInit) => server.fetch(new Request(url, init));
    const model = createOpenAICompatible({ name: "served", baseURL: "http://here/v1", apiKey: KEY, fetch });
    const asked = atlas.ask?.("What is the capital of the country that borders Portugal?") ?? expect.fail();
    const { world } = factsOf(asked);
    const sources = {
      search: (query: string) => searchTitles(world, query),
      visit: (title: string) => pageText(world, title),
      calculate: calculateText,
    };
    const team = { planner: model("main"), searcher: model("searcher") };
    const answer = await answerQuestion(asked.prompt, team, sources, new AbortController().signal);
    const lines = await printedJson("ask", asked.prompt, "--team", "examples/ai-sdk-team");
    expect(lines.filter(({ kind }) => kind === "turn").length).toBeGreaterThan(2);
    expect(lines.at(-1)).toMatchObject({ kind: "result", answer });
  } finally {
    await close();
  }
});
