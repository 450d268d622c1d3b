/**
 * @file `mgrpo eval <endpoint or team.json> --suite`: a model behind an API on a benchmark. After a kill, or once the account has credit again,
 * the same command resumes. If the tool budget is spent, the command resumes with a higher budget.
 */
import { once } from "node:events";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, afterEach, expect, test, vi } from "vitest";
import { type ChatRequest, fails, type Reply, replyWith, startOpenAiServer } from "../fakes/openai-server.ts";
import { SEARCH_KEY } from "../world/search-api.ts";
import { serveWorld } from "../world/server.ts";
import { worldSettings } from "../world/tools.ts";
import { projectOfFile, RELAY, startMgrpo } from "./command-line.ts";
import { printedJson } from "./printed.ts";

const folder = projectOfFile();
let reply: (question: string, request: ChatRequest) => Reply = answer;
const server = await startOpenAiServer((request) => reply(questionOf(request), request));
afterEach(() => vi.restoreAllMocks());
afterAll(() => server.close());

const QUESTIONS = ["two plus two", "Which metal", "Which bird", "How many dollars"];
const ANSWERS = ["4", "gold, silver", "albatross", "$1,250"];

const questionOf = ({ body }: ChatRequest) => body.messages.find(({ role }) => role === "user")?.content ?? "";
const indexOf = (question: string) => QUESTIONS.findIndex((part) => question.includes(part));
function answer(question: string): Reply {
  return replyWith(ANSWERS[indexOf(question)] ?? "?");
}

const model = `openai:${server.url}#planner`;
const data = resolve(import.meta.dirname, "../fixtures/benchmarks/gaia");
const settings = [
  "agents.main.engine.slots=1",
  'liveness={"heartbeatSeconds":0.2,"leaseSeconds":20,"pollSeconds":0.02}',
];
const command = (results: string) => [
  ...["eval", model, "--recipe", RELAY, "--arm", "mgrpo", "--suite", "gaia", "--data", data, "--attachments", "all"],
  ...["--runs", "1", "--results", join(folder, results)],
  ...settings.flatMap((setting) => ["--set", setting]),
];
const resultFile = (results: string, name: string) => {
  const [only, ...others] = readdirSync(join(folder, results));
  expect(others).toEqual([]);
  expect(only).toMatch(/^planner-gaia-[0-9a-f]{12}$/);
  return readFileSync(join(folder, results, only ?? "", name), "utf8");
};
/** Indices of the questions asked after the first `first` requests. */
const askedSince = (first: number) => server.requests.slice(first).map((request) => indexOf(questionOf(request)));

test("an account without credit ends the command with an error and no score; once topped up, the same command writes the score and the submission", async () => {
  const errors = vi.spyOn(console, "error").mockImplementation(() => {});
  reply = (question) => (indexOf(question) === 2 ? fails(402, "no credits") : answer(question));
  const refused = printedJson(...command("paid"));
  await expect(refused).rejects.toMatchObject({
    code: "run-halted",
    message: `model 'planner' at ${server.url} requires payment: top up the account (HTTP 402: no credits)`,
  });
  expect(errors.mock.calls.flat().join()).toMatch(/answers so far are kept in .*; run the same command to resume/);
  expect(askedSince(0)).toEqual([0, 1, 2]);
  expect(() => resultFile("paid", "result.json")).toThrow(/ENOENT/);

  reply = answer;
  const [report] = await printedJson(...command("paid"));
  expect(askedSince(3)).toEqual([2, 3]);
  expect(report).toMatchObject({ suite: "gaia", n: 4, correct: 3, lost: [], team: model, unasked: [] });
  expect(report?.["groups"]).toMatchObject([
    { group: "level 1", n: 1, correct: 1 },
    { group: "level 2", n: 2, correct: 1 },
    { group: "level 3", n: 1, correct: 1 },
  ]);
  const lines = resultFile("paid", "submission-run1.jsonl").trimEnd().split("\n");
  expect(lines.map((line) => JSON.parse(line))).toEqual(
    ANSWERS.map((text, i) => ({
      task_id: `00000000-0000-4000-8000-00000000000${i + 1}`,
      model_answer: text,
      reasoning_trace: expect.stringContaining(text),
    })),
  );
});

test("after a kill, the same command repeats no answered question, and writes the same files", async () => {
  vi.spyOn(console, "error").mockImplementation(() => {});
  const before = server.requests.length;
  // One request at a time: when the third question is asked, two answers are in the store.
  const third = new Promise<void>((resolve) => {
    reply = (question) => {
      if (indexOf(question) < 2) return answer(question);
      resolve();
      return "hang";
    };
  });
  const child = startMgrpo(folder, ...command("killed"));
  const exited = once(child, "exit");
  await Promise.race([third, exited]);
  child.kill("SIGKILL");
  expect(await exited).toEqual([null, "SIGKILL"]);
  expect(askedSince(before)).toEqual([0, 1, 2]);

  reply = answer;
  await printedJson(...command("killed"));
  expect(askedSince(before + 3)).toEqual([2, 3]);
  expect(resultFile("killed", "result.json")).toEqual(resultFile("paid", "result.json"));
  expect(resultFile("killed", "submission-run1.jsonl")).toEqual(resultFile("paid", "submission-run1.jsonl"));
});

test("a spent tool budget ends the command, which resumes with a higher budget", async () => {
  const world = await serveWorld();
  process.env["SERPER_API_KEY"] = SEARCH_KEY;
  const errors = vi.spyOn(console, "error").mockImplementation(() => {});
  const towns = ["Alby", "Corby"];
  const townIn = (question: string) => towns.find((town) => question.includes(town));
  const questions = join(folder, "towns.jsonl");
  writeFileSync(
    questions,
    towns.map((town) => `${JSON.stringify({ id: town, prompt: `Where is ${town}?`, answer: "here" })}\n`).join(""),
  );
  const searching = join(folder, "searching.json");
  const endpoint = { usdPerMillionTokens: { input: 1000, output: 10_000 } };
  const agent = { policy: `openai:${server.url}`, model: "planner", tools: ["search"], engine: { slots: 1 }, endpoint };
  const before = server.requests.length;
  const tools = { ...worldSettings(world), budget: { run: { calls: 1 } } };
  writeFileSync(searching, JSON.stringify({ recipe: "deep-research", agents: { main: agent }, tools }));
  reply = (question, { body }) =>
    body.messages.some(({ role }) => role === "tool")
      ? replyWith("here")
      : replyWith(null, { calls: [{ name: "search", arguments: JSON.stringify({ query: townIn(question) }) }] });
  const results = join(folder, "spent");
  const ask = ["eval", searching, "--suite", questions, "--runs", "1", "--results", results];
  try {
    await expect(printedJson(...ask, "--budget-tool-calls", "3")).rejects.toThrow(
      "no budget to raise: leave out --budget-*",
    );
    expect(errors.mock.calls.flat().join()).not.toContain("answers so far are kept");
    const spent =
      /its tools' budget is spent: 1 call to backends; allow more with --budget-tool-calls <calls in all>, or in a new run with a higher tools.budget.run.calls/;
    await expect(printedJson(...ask)).rejects.toThrow(spent);
    await expect(printedJson(...ask)).rejects.toThrow(spent);
    const [report] = await printedJson(...ask, "--budget-tool-calls", "3");
    expect(report).toMatchObject({ n: 2, correct: 2, lost: [] });
    expect(world.searches()).toBe(2);
    // Each turn reads 20 tokens and samples 5: (20 * 1000 + 5 * 10,000) / 1,000,000 dollars.
    // Each search costs $0.001, even if it is refused: searches are counted before they run.
    const turns = server.requests.length - before;
    expect(report).toMatchObject({
      spent: { agentsUsd: expect.closeTo(0.07 * turns, 6), toolsUsd: 0.003, unpriced: [] },
    });
    expect(errors.mock.calls.flat().join()).toContain("run the same command to resume");
    await expect(printedJson("eval", searching, "--budget-tool-usd", "1")).rejects.toThrow(
      /add --suite <name>, or set a higher/,
    );
  } finally {
    delete process.env["SERPER_API_KEY"];
    await world.close();
  }
});
