/**
 * @file The whole recipe in the test world. A small model that plans and a scripted searcher, which visits hostile pages too, are trained,
 * published, evaluated on three benchmarks when events announce their checkpoints, and judged by a local server. A second run has two Qwen3
 * folders with random weights, which get adapters because `agents.*.model` is set. No network but this machine's.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { questionsOf } from "../../../adapters/benchmarks/load.ts";
import { readBases } from "../../../cli/local/base-models.ts";
import { startOrResume } from "../../../cli/local/start-or-resume.ts";
import { Manifest } from "../../../core/contracts/checkpoint.ts";
import type { RunConfig } from "../../../core/contracts/config.ts";
import { objectKeys } from "../../../core/contracts/keys.ts";
import { resolveConfig } from "../../../core/training/resolve-config.ts";
import { compiledEngine } from "../../../engine/compiled/engine.ts";
import { composeFunctions } from "../../../functions/compose.ts";
import { compose } from "../../../gpu-workers/compose.ts";
import { createLog } from "../../../gpu-workers/log.ts";
import { serveWorker } from "../../../gpu-workers/serve.ts";
import type { ServeWorkerOptions } from "../../../gpu-workers/worker-process.ts";
import { openRecipe } from "../../../recipes/registry.ts";
import { memoryStore } from "../../fakes/memory-store.ts";
import { type OpenAiServer, replyWith, startOpenAiServer } from "../../fakes/openai-server.ts";
import { qwen3Files } from "../../fixtures/qwen3.ts";
import { baseFiles } from "../../fixtures/relay/policy.ts";
import { recordsOf, TOKEN, withEvents } from "../../fixtures/relay/world.ts";
import { HOSTILE } from "../../fixtures/research/script.ts";
import { SEARCH_KEY } from "../../world/search-api.ts";
import { serveWorld, type WorldServer } from "../../world/server.ts";
import { worldSettings } from "../../world/tools.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const BENCHMARKS = join(ROOT, "test/fixtures/benchmarks");
const folder = mkdtempSync(join(tmpdir(), "research-"));
let world: WorldServer;
let judge: OpenAiServer;
beforeAll(async () => {
  process.env["SERPER_API_KEY"] = SEARCH_KEY;
  world = await serveWorld();
  judge = await startOpenAiServer(({ body }) =>
    replyWith(JSON.stringify(verdict(body.messages.at(-1)?.content ?? ""))),
  );
});
afterAll(async () => {
  delete process.env["SERPER_API_KEY"];
  await Promise.all([world.close(), judge.close()]);
  rmSync(folder, { recursive: true, force: true });
});

/** Judges by length, whatever the text means: all that matters here is that scores differ. */
function verdict(sent: string): object {
  const { answer, report = "" } = JSON.parse(sent) as { answer?: string; report?: string };
  if (answer === undefined) return { reason: "looked", score: (report.length % 4) / 4 };
  return { reason: "compared", stated: answer, correct: answer.length % 2 === 0 };
}

function folderOf(name: string, files: ReadonlyMap<string, Uint8Array>): string {
  const path = join(folder, name);
  mkdirSync(path);
  for (const [file, bytes] of files) writeFileSync(join(path, file), bytes);
  return path;
}

/** Questions about the test world, in words that the shipped planner knows. */
function townsFile(): string {
  const path = join(folder, "towns.jsonl");
  const rows = TOWNS.map((town) => ({ id: town, prompt: `What is the capital of ${town}?`, answer: town }));
  writeFileSync(path, rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  return path;
}

const TOWNS = ["Alby", "Brenby", "Corby", "Dalby"];
const QUICK = [
  ...["steps=1", "questionsPerStep=2", "rolloutsPerQuestion=4", "liveness.pollSeconds=0.02"],
  ...["main", "searcher"].flatMap((name) => [
    `agents.${name}.engine.slots=8`,
    `agents.${name}.engine.microBatchTokens=640`,
  ]),
];

/**
 * Does what `mgrpo train` does, in this process, on a store in memory. Returns the run's records, the keys of all
 * objects, as `text` the JSON objects and the log, and `manifest`, which reads the manifest of a version.
 */
async function train(recipeName: string, set: readonly string[]) {
  const lines: string[] = [];
  const log = createLog((line) => lines.push(line));
  const memory = memoryStore();
  const functions = composeFunctions(memory);
  const store = withEvents(memory, () => functions, log);
  const recipe = await openRecipe(recipeName);
  const choice = { run: "world", seed: 1, arm: "mgrpo", recipe: recipeName } as const;
  const config: RunConfig = resolveConfig(recipe, { ...choice, set: [...QUICK, ...set] });
  const bases = await readBases(config, "train");
  await startOrResume(
    { store, functions: composeFunctions(store) },
    config,
    () => bases,
    () => questionsOf(recipe, config),
  );
  const parts = await compose(config.run, store, log);
  const engineOf = (policy: string) => (policy === "compiled" ? compiledEngine : parts.engineOf(policy));
  const work = (options: Pick<ServeWorkerOptions, "agent" | "roles">) => {
    const rest = { host: "127.0.0.1", port: 0, url: undefined, token: TOKEN, supervised: false };
    return serveWorker({ ...parts, engineOf }, { ...options, ...rest }, new AbortController().signal);
  };
  await Promise.all([
    work({ agent: "main", roles: ["rollout", "train"] }),
    work({ agent: "searcher", roles: ["rollout", "train"] }),
    ...(config.evaluation.suites.length > 0 ? [work({ agent: "*", roles: ["eval"] })] : []),
  ]).finally(() => parts.close());
  const read = async (key: string) => new TextDecoder().decode(await memory.objects.get(key));
  const texts = await Promise.all(
    memory.objects
      .keys()
      .filter((key) => key.endsWith(".json"))
      .map(read),
  );
  const manifest = async (agent: string, version: number) =>
    Manifest.parse(JSON.parse(await read(objectKeys.manifest(config.run, agent, version))));
  return {
    records: await recordsOf(memory, config),
    keys: memory.objects.keys(),
    text: [...texts, ...lines].join("\n"),
    manifest,
  };
}

test("a small planner and a scripted searcher are trained and evaluated in the test world, whose hostile pages forge no message", async () => {
  const suites = [
    { name: "gaia", benchmark: "gaia", data: join(BENCHMARKS, "gaia"), questions: 1 },
    { name: "xbench", benchmark: "xbench", data: join(BENCHMARKS, "xbench.csv"), questions: 1 },
    { name: "webwalkerqa", benchmark: "webwalkerqa", data: join(BENCHMARKS, "webwalkerqa.json"), questions: 1 },
  ];
  const { records, keys, text, manifest } = await train(join(ROOT, "test/fixtures/research"), [
    `questions.train=${townsFile()}`,
    `judge.model=openai:${judge.url}#judge`,
    ...Object.entries(worldSettings(world)).map(([name, value]) => `tools.${name}=${JSON.stringify(value)}`),
    `agents.main.model=${join(ROOT, "recipes/atlas/models/main")}`,
    "agents.main.system=",
    'agents.main.limits={"turns":4,"turnTokens":48,"contextTokens":320,"calls":2,"responseCharacters":200}',
    ...["policy=recipe:scripted", `model=${folderOf("scripted", baseFiles("searcher"))}`].map(
      (one) => `agents.searcher.${one}`,
    ),
    'agents.searcher.limits={"turns":4,"turnTokens":400,"contextTokens":9000,"responseCharacters":600}',
    `evaluation={"every":1,"suites":${JSON.stringify(suites)}}`,
  ]);

  expect(records).toMatchObject({ status: "finished", steps: [{ state: "closed" }] });
  const scores = records.steps.flatMap(({ groups }) => groups.flatMap(({ rollouts }) => Object.values(rollouts)));
  expect(scores).toHaveLength(8);
  expect(scores.filter((score) => "excluded" in score)).toEqual([]);
  expect(records.evaluations.map(({ team, suite, state, n }) => `${team} ${suite} ${state} ${n}`).sort()).toEqual(
    [0, 1].flatMap((team) => ["gaia", "webwalkerqa", "xbench"].map((suite) => `${team} ${suite} done 3`)),
  );

  // Both were trained: the main agent's adapter and the searcher's scripted policy.
  for (const agent of ["main", "searcher"]) {
    const versions = await Promise.all([0, 1].map((version) => manifest(agent, version)));
    expect(versions.map(({ trained }) => trained)).toContain(true);
    const weights = agent === "main" ? "adapter_model.safetensors" : "model.safetensors";
    expect(versions[1]?.files[weights]?.sha256).not.toBe(versions[0]?.files[weights]?.sha256);
  }
  expect((await manifest("main", 1)).files["model.safetensors"]).toEqual(
    (await manifest("main", 0)).files["model.safetensors"],
  );

  // The searcher visited the hostile pages; tool responses have their text without the template's special tokens.
  expect(world.searches()).toBeGreaterThan(0);
  for (const path of HOSTILE) expect(world.asked(path), path).toBeGreaterThan(0);
  expect(keys.filter((key) => key.includes("/tools/")).length).toBeGreaterThan(HOSTILE.length);
  const responses = responsesIn(text);
  expect(responses).toContain("You are free now");
  expect(responses).not.toContain("<|im");
  expect(text).not.toContain(SEARCH_KEY);
  expect(judge.requests.length).toBeGreaterThan(0);
  expect(keys.some((key) => key.includes("/verdicts/"))).toBe(true);
});

test("a run on two Qwen3 folders with random weights, one thinking, one not, publishes adapters", async () => {
  const limits = 'limits={"turns":2,"turnTokens":8,"contextTokens":2000}';
  const { records, manifest } = await train("recipes/deep-research", [
    ...["main", "searcher"].flatMap((name, i) => [
      `agents.${name}.model=${folderOf(`Qwen3-${name}`, qwen3Files(i))}`,
      ...[
        `agents.${name}.${limits}`,
        `agents.${name}.engine.microBatchTokens=2000`,
        `agents.${name}.thinking=${i === 0}`,
      ],
    ]),
    ...["rolloutsPerQuestion=2", `questions.train=${townsFile()}`, "algorithm.subReward.expert=0"],
  ]);
  expect(records).toMatchObject({ status: "finished", steps: [{ state: "closed" }] });
  // What they write is noise: malformed and rewarded with 0, so there is nothing to learn from.
  const scores = records.steps.flatMap(({ groups }) => groups.flatMap(({ rollouts }) => Object.values(rollouts)));
  expect(scores).toHaveLength(4);
  expect(scores.filter((score) => "excluded" in score)).toEqual([]);
  for (const agent of ["main", "searcher"])
    expect(Object.keys((await manifest(agent, 1)).files), agent).toContain("adapter_model.safetensors");
});

/** The responses to tool calls and delegations in lines of JSON, without the turns that models wrote. */
function responsesIn(lines: string): string {
  const responses: unknown[] = [];
  const collect = (key: string, value: unknown) => {
    if (key === "responses") responses.push(value);
    return value;
  };
  for (const line of lines.split("\n")) if (line.includes('"responses"')) JSON.parse(line, collect);
  return JSON.stringify(responses);
}
