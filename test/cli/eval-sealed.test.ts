/**
 * @file A sealed benchmark, evaluated with tools, models and a judge that are all told what is asked: no file that is left says it in plain
 * text, log, cache and an outage's reason included.
 */
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { seal } from "../../core/contracts/sealed.ts";
import { type ChatRequest, fails, type Reply, says, startOpenAiServer } from "../fakes/openai-server.ts";
import { SEARCH_KEY } from "../world/search-api.ts";
import { serveWorld, type WorldServer } from "../world/server.ts";
import { worldSettings } from "../world/tools.ts";
import { workplaceOfFile } from "./command-line.ts";
import { told } from "./printed.ts";

const CANARY = "canary GUID xbench-DeepSearch-2510:00000000-0000-4000-8000-000000000000";
const SOLVED = ["乌有城的钟楼始建于哪一年，由哪一位总督下令建造？", "in the year of the made-up comet"];
const SPOILED = ["Which town of Arlandia had a clock before it had a bridge?", "the town of Hollow Kelby"];

const folder = workplaceOfFile();
const server = await startOpenAiServer(reply);
let world: WorldServer;
beforeAll(async () => {
  world = await serveWorld();
  process.env["SERPER_API_KEY"] = SEARCH_KEY;
});
afterAll(async () => {
  delete process.env["SERPER_API_KEY"];
  await Promise.all([world.close(), server.close()]);
});

/** A planner that tells every tool what it was asked, and a server that repeats, escaped, what it cannot do. */
function reply({ body }: ChatRequest): Reply {
  const { model, messages } = body;
  const [asked = ""] = messages.flatMap(({ role, content }) => (role === "user" && content ? content : []));
  if (model === "judge") return says(JSON.stringify({ reason: `it answers ${asked}`, stated: asked, correct: true }));
  if (model === "reader") {
    const body = JSON.stringify({ detail: `cannot think about ${asked}` }).replace(
      /[^ -~]/g,
      (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
    );
    return asked.startsWith(SPOILED[0] ?? "") || asked.includes("spoil") ? { status: 500, body } : says("thought");
  }
  if (model !== "planner") return fails(404, "no such model");
  if (messages.some(({ role }) => role === "tool")) return says(`${SOLVED[1]}, and not of ${SPOILED[1]}`);
  const call = (name: string, args: object) => ({ name, arguments: JSON.stringify(args) });
  return says(null, {
    calls: [
      call("search", { query: asked }),
      call("reason", { problem: asked === SOLVED[0] ? asked : `${SOLVED[0]} spoil ${asked}` }),
      call("visit", { url: `${world.origin}/wiki/Brenby`, goal: asked }),
      call("made_variable", { name: asked }),
    ],
  });
}

function files(place: string): string[] {
  return readdirSync(place, { recursive: true, encoding: "utf8" })
    .map((name) => join(place, name))
    .filter((path) => statSync(path).isFile());
}

test("no file of a finished evaluation holds what a sealed question says", { timeout: 60_000 }, async () => {
  const data = join(folder, "xbench.csv");
  const rows = [SOLVED, SPOILED].map((row, i) => [i + 1, ...row.map((text) => seal(text, CANARY)), CANARY].join(","));
  writeFileSync(data, ["id,prompt,answer,canary", ...rows, ""].join("\n"));
  const model = (name: string) => ({ provider: "openai", baseUrl: server.url, model: name, attempts: 1 });
  const team = join(folder, "team.json");
  const main = {
    ...{ policy: `openai:${server.url}`, model: "planner", engine: { slots: 1 } },
    tools: ["search", "visit", "reason", "made_variable"],
  };
  const mcp = {
    made: { command: "node", arguments: [resolve(import.meta.dirname, "../world/mcp-server.mjs")], only: ["variable"] },
  };
  const cache = { folder: join(folder, "answers") };
  const tools = worldSettings(world, {
    reason: { model: model("reader") },
    extract: { model: model("reader") },
    mcp,
    cache,
  });
  writeFileSync(
    team,
    JSON.stringify({
      recipe: "deep-research",
      agents: { main },
      tools,
      judge: { model: model("judge") },
      limits: { attempts: 1 },
    }),
  );
  const heard = vi.spyOn(console, "error").mockImplementation(() => {});
  const results = join(folder, "results");
  const ask = ["eval", team, "--suite", "xbench", "--data", data, "--runs", "1", "--results", results];
  const [report] = await told(...ask);
  expect(report).toMatchObject({ n: 1, correct: 1, lost: ["xbench-2510:2"] });
  expect(JSON.stringify(report?.["reasons"])).toMatch(
    /model 'reader' at .* has failed \(HTTP 500: .*cannot think about …/,
  );
  process.exitCode = 0;

  // What was asked of tools is kept, and opens with its canary.
  const kept = files(join(folder, "answers")).map((path) => readFileSync(path, "utf8"));
  expect(kept.filter((text) => text.startsWith(`{"canary":"${CANARY}"`)).length).toBeGreaterThanOrEqual(5);
  const log = files(results).find((path) => path.endsWith("eval.log")) ?? expect.fail();
  expect(readFileSync(log, "utf8")).toContain("attempt spoiled");
  const written = [...files(folder).map((path) => readFileSync(path)), Buffer.from(heard.mock.calls.join("\n"))];
  for (const plain of [...SOLVED, ...SPOILED, "乌有城的钟楼", "clock before it had"]) {
    const escaped = JSON.stringify(plain).slice(1, -1);
    for (const text of [plain, escaped, plain.replace(/[^ -~]/g, (c) => `\\u${c.charCodeAt(0).toString(16)}`)])
      expect(
        written.filter((bytes) => bytes.includes(text)),
        text,
      ).toEqual([]);
  }
  vi.restoreAllMocks();
});
