/**
 * @file An encrypted benchmark, evaluated with tools, models and a judge that all see the questions: no file left behind contains a
 * question in plain text, not even the logs, the cache or the reasons for lost rollouts.
 */
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { questionsOf } from "../../../adapters/benchmarks/load.ts";
import { readBases } from "../../../cli/local/base-models.ts";
import { openEmbeddedCloud } from "../../../cli/local/embedded-cloud.ts";
import { readJobs } from "../../../cli/local/read-records.ts";
import { startOrResume } from "../../../cli/local/start-or-resume.ts";
import { reportSuite, type SuiteReport } from "../../../cli/suite/suite-report.ts";
import { encrypt } from "../../../core/contracts/encryption.ts";
import { resolveConfig } from "../../../core/training/resolve-config.ts";
import { compose } from "../../../gpu-workers/compose.ts";
import { createLog } from "../../../gpu-workers/log.ts";
import { serveWorker } from "../../../gpu-workers/serve.ts";
import { openRecipe } from "../../../recipes/registry.ts";
import { type ChatRequest, fails, type Reply, replyWith, startOpenAiServer } from "../../fakes/openai-server.ts";
import { TOKEN } from "../../fixtures/relay/world.ts";
import { SEARCH_KEY } from "../../world/search-api.ts";
import { serveWorld, type WorldServer } from "../../world/server.ts";
import { worldSettings } from "../../world/tools.ts";

const CANARY = "canary GUID xbench-DeepSearch-2510:00000000-0000-4000-8000-000000000000";
const SOLVED = ["乌有城的钟楼始建于哪一年，由哪一位总督下令建造？", "in the year of the made-up comet"];
const FAILED = ["Which town of Arlandia had a clock before it had a bridge?", "the town of Hollow Kelby"];

const folder = mkdtempSync(join(tmpdir(), "encrypted-"));
const server = await startOpenAiServer(reply);
let world: WorldServer;
beforeAll(async () => {
  world = await serveWorld();
  process.env["SERPER_API_KEY"] = SEARCH_KEY;
});
afterAll(async () => {
  delete process.env["SERPER_API_KEY"];
  await Promise.all([world.close(), server.close()]);
  rmSync(folder, { recursive: true, force: true });
});

/** A planner that passes its question to every tool, a judge that quotes it, and a reader that quotes it, escaped, in its errors. */
function reply({ body }: ChatRequest): Reply {
  const { model, messages } = body;
  const [asked = ""] = messages.flatMap(({ role, content }) => (role === "user" && content ? content : []));
  if (model === "judge")
    return replyWith(JSON.stringify({ reason: `it answers ${asked}`, stated: asked, correct: true }));
  if (model === "reader") {
    const body = JSON.stringify({ detail: `cannot think about ${asked}` }).replace(
      /[^ -~]/g,
      (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
    );
    return asked.startsWith(FAILED[0] ?? "") || asked.includes("outage") ? { status: 500, body } : replyWith("thought");
  }
  if (model !== "planner") return fails(404, "no such model");
  if (messages.some(({ role }) => role === "tool")) return replyWith(`${SOLVED[1]}, and not of ${FAILED[1]}`);
  const call = (name: string, args: object) => ({ name, arguments: JSON.stringify(args) });
  return replyWith(null, {
    calls: [
      call("search", { query: asked }),
      call("reason", { problem: asked === SOLVED[0] ? asked : `${SOLVED[0]} outage ${asked}` }),
      call("visit", { url: `${world.origin}/injection.txt`, goal: asked }),
      call("made_variable", { name: asked }),
    ],
  });
}

function files(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile());
}

/** As `mgrpo eval --suite xbench` does it, in this process. */
async function evaluate(set: readonly string[]): Promise<SuiteReport> {
  const recipe = await openRecipe("deep-research");
  const config = resolveConfig(recipe, { run: "eval", seed: 1, arm: "single-agent", set });
  const questions = await questionsOf(recipe, config);
  const session = await openEmbeddedCloud(join(folder, "cloud"), join(folder, "functions.log"));
  const { store } = session;
  const bases = await readBases(config, "evaluate");
  await startOrResume(
    session,
    config,
    () => bases,
    () => questions,
  );
  const log = createLog((line) => appendFileSync(join(folder, "eval.log"), line));
  const parts = await compose(config.run, store, log);
  const stop = new AbortController();
  const registration = {
    host: "127.0.0.1",
    port: 0,
    url: undefined,
    token: TOKEN,
    supervised: false,
  };
  const worker = serveWorker(parts, { ...registration, agent: "*", roles: ["eval"] }, stop.signal);
  try {
    const ended = worker.then(() => expect.fail("the worker ended before it had evaluated"));
    const evaluated = expect
      .poll(() => readJobs(store, config.run), { timeout: 200_000 })
      .toMatchObject([{ state: "done" }]);
    await Promise.race([evaluated, ended]);
    const [job] = await readJobs(store, config.run);
    const [suite] = config.evaluation.suites;
    const asked = questions.suites?.["xbench"];
    if (!job || !suite || !asked) return expect.fail("no suite xbench");
    return await reportSuite(store, folder, "team", suite, asked, job);
  } finally {
    stop.abort();
    await worker.catch(() => {});
    await parts.close();
    await session.close();
  }
}

test("no file of a finished evaluation holds text of an encrypted question", async () => {
  const data = join(folder, "xbench.csv");
  const rows = [SOLVED, FAILED].map((row, i) => [i + 1, ...row.map((text) => encrypt(text, CANARY)), CANARY].join(","));
  writeFileSync(data, ["id,prompt,answer,canary", ...rows, ""].join("\n"));
  const model = (name: string) => ({ provider: "openai", baseUrl: server.url, model: name, attempts: 1 });
  const reader = { model: model("reader") };
  const script = resolve(import.meta.dirname, "../../world/mcp-server.mjs");
  const mcp = { made: { command: "node", arguments: [script], only: ["variable"] } };
  const cache = { folder: join(folder, "answers") };
  const report = await evaluate([
    ...["steps=1", "limits.attempts=1", "liveness.pollSeconds=0.02"],
    ...[`policy=openai:${server.url}`, "model=planner", "trained=false", "engine.slots=1"].map(
      (one) => `agents.main.${one}`,
    ),
    'agents.main.tools=["search","visit","reason","made_variable"]',
    `tools=${JSON.stringify(worldSettings(world, { reason: reader, extract: reader, mcp, cache }))}`,
    `judge.model=${JSON.stringify(model("judge"))}`,
    `evaluation.suites=${JSON.stringify([{ name: "xbench", benchmark: "xbench", data, runs: 1 }])}`,
  ]);
  expect(report).toMatchObject({ n: 1, correct: 1, lost: ["xbench-2510:2"] });
  expect(report.reasons.join()).toMatch(/model 'reader' at .* has failed \(HTTP 500: .*cannot think about …/);
  expect(report.spent.unpriced).toEqual([
    ...["agents.main.endpoint.usdPerMillionTokens", "judge.usdPerMillionTokens"],
    ...["tools.reason.usdPerMillionTokens", "tools.extract.usdPerMillionTokens"],
  ]);

  // The tools' requests and answers are cached, each pair in an encrypted object that starts with the canary.
  const kept = files(join(folder, "answers")).map((path) => readFileSync(path, "utf8"));
  expect(kept.filter((text) => text.startsWith(`{"canary":"${CANARY}"`)).length).toBeGreaterThanOrEqual(5);
  expect(readFileSync(join(folder, "eval.log"), "utf8")).toContain("attempt failed");
  const written = files(folder).map((path) => readFileSync(path));
  expect(written.length).toBeGreaterThan(10);
  for (const plain of [...SOLVED, ...FAILED, "乌有城的钟楼", "clock before it had"]) {
    const escaped = JSON.stringify(plain).slice(1, -1);
    for (const text of [plain, escaped, plain.replace(/[^ -~]/g, (c) => `\\u${c.charCodeAt(0).toString(16)}`)])
      expect(
        written.filter((bytes) => bytes.includes(text)),
        text,
      ).toEqual([]);
  }
});
