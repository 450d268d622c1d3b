/** @file `ask`: the user's question to a team behind APIs, what goes wrong, and the events on a terminal. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { afterAll, expect, test } from "vitest";
import type { OnProgress } from "../../cli/ask/answer.ts";
import { asTree } from "../../cli/ask/narrate.ts";
import { serveHttp } from "../fakes/http-server.ts";
import { type ChatRequest, fails, type Reply, replyWith, serveOpenAi } from "../fakes/openai-server.ts";
import { printedJson } from "./printed.ts";

const folder = mkdtempSync(join(tmpdir(), "mgrpo-ask-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A planner that delegates once and repeats the report, and a searcher that reads one page. */
function team({ body }: ChatRequest): Reply {
  const toolResults = body.messages.filter(({ role }) => role === "tool").map(({ content }) => content);
  const call = (name: string, args: object) => replyWith(null, { calls: [{ name, arguments: JSON.stringify(args) }] });
  if (body.model === "planner") {
    return toolResults[0]
      ? replyWith(toolResults[0])
      : call("delegate", { agent: "searcher", task: "the page of Portugal" });
  }
  return toolResults[0]
    ? replyWith(/Capital: \[(\w+)\]/.exec(toolResults[0])?.[1] ?? "?")
    : call("visit", { title: "Portugal" });
}

const behind = (url: string) => ({
  recipe: "atlas",
  agents: {
    main: { policy: `openai:${url}`, model: "planner", delegates: ["searcher"] },
    searcher: { policy: `openai:${url}`, model: "reader", tools: ["search", "visit"] },
  },
});

test("for a team behind APIs, named by a file, ask prints one line per event, then the answer and the tokens", async () => {
  const server = await serveOpenAi(team);
  const file = join(folder, "team.json");
  writeFileSync(file, JSON.stringify(behind(server.url)));
  const lines = await printedJson("ask", "What is the capital of Portugal?", "--team", file);
  expect(lines.map(({ kind, agent, call }) => [kind, agent, call].join(" ").trim())).toEqual([
    "prompt main",
    "turn main",
    "prompt searcher 0",
    "turn searcher 0",
    "response searcher 0",
    "turn searcher 0",
    "end searcher 0",
    "response main",
    "turn main",
    "end main",
    "result",
  ]);
  expect(lines.at(-1)).toMatchObject({
    ...{ stop: "answered", answer: "Lisbon", fault: null },
    tokens: { main: { asked: 1, sampled: 10, read: 40 }, searcher: { asked: 1, sampled: 10, read: 40 } },
  });
});

test("a model behind an API is a team: alone with every tool, or as each agent of the recipe", async () => {
  const server = await serveOpenAi(() => replyWith("Lisbon"));
  const team = `openai:${server.url}#org/planner`;
  const toolsOf = async (...more: string[]) => {
    const lines = await printedJson("ask", "What is the capital of Portugal?", "--team", team, ...more);
    expect(lines.at(-1)).toMatchObject({ kind: "result", answer: "Lisbon" });
    const { body } = server.requests.at(-1) ?? expect.fail();
    expect(body).toMatchObject({ model: "org/planner", messages: [{ role: "system" }, { role: "user" }] });
    return body.tools?.map((tool) => tool.function.name);
  };
  expect(await toolsOf()).toEqual(["search", "visit", "calculate"]);
  expect(await toolsOf("--arm", "mgrpo")).toEqual(["delegate", "calculate"]);
});

test("settings can put one agent behind an API; a team that gives no answer ends with an error", async () => {
  const server = await serveOpenAi(() => replyWith(null, { calls: [{ name: "sextant", arguments: "{}" }] }));
  const set = [`agents.main.policy=openai:${server.url}`, "agents.main.model=planner"];
  const answer = printedJson("ask", "Where?", ...set.flatMap((one) => ["--set", one]));
  await expect(answer).rejects.toThrow(
    "the team gave no answer: unknown tool 'sextant' (available: delegate, calculate)",
  );
});

test.each<[string, Reply, string[], RegExp]>([
  ["an account without money", fails(402, "no credits"), [], /model 'planner' .*requires payment/],
  [
    "a key that is not set",
    fails(401, "?"),
    ["--set", "agents.main.endpoint.keyVariable=NO_KEY"],
    /NO_KEY holds no key/,
  ],
  ["no such team", fails(404, "?"), ["--team", "nobody.json"], /--team nobody.json: no such file/],
  ["an unknown setting", fails(404, "?"), ["--set", "agents.main.endpoint.key=x"], /agents.main.endpoint: .*key/],
])("the error names the cause: %s", async (_, reply, more, line) => {
  const server = await serveOpenAi(() => reply);
  const file = join(folder, "team.json");
  writeFileSync(file, JSON.stringify(behind(server.url)));
  await expect(printedJson("ask", "Where?", "--team", file, ...more)).rejects.toThrow(line);
});

test("the error for a spent budget of the tools names the setting", async () => {
  const calls = ["Alby", "Bergen"].map((query) => ({ name: "search", arguments: JSON.stringify({ query }) }));
  const server = await serveOpenAi(() => replyWith(null, { calls }));
  const engine = await serveHttp((_, response) => {
    response.writeHead(200, { "content-type": "application/json" }).end('{"results": []}');
  });
  const set = ["search.backend=searxng", `search.url=${engine}`, "budget.run.calls=1"];
  const settings = set.flatMap((one) => ["--set", `tools.${one}`]);
  await expect(printedJson("ask", "Where?", "--team", `openai:${server.url}#planner`, ...settings)).rejects.toThrow(
    /tools' budget is spent: 1 call to backends; .* in a new run with a higher tools\.budget\.run\.calls$/,
  );
});

test.each(["temperature", "agents.main.temperature"])(
  "--set %s, which asking would ignore, is refused",
  async (path) => {
    await expect(printedJson("ask", "Where?", "--set", `${path}=0.5`)).rejects.toThrow(
      `--set ${path}=0.5 changes only training: ask samples every agent at the temperature that --temperature gives`,
    );
  },
);

test.each([
  ["budget.usd=0.5", "budget: tools.budget and each agent's limits bound what a question costs"],
  ['budget={"hours":1}', "budget: tools.budget"],
  ["evaluation.workers=2", "evaluation: leave it out"],
  ["steps=3", "steps: leave it out"],
  ["algorithm.clipHigh=0.3", "algorithm: leave it out"],
  ["agents.main.workers=2", "agents.main.workers: leave it out"],
  ["liveness.pollSeconds=1", "liveness: leave it out"],
  ['limits={"toolSeconds":9,"attempts":2}', "limits.attempts: leave it out"],
])("--set %s, which asking would ignore, is refused", async (setting, why) => {
  await expect(printedJson("ask", "Where?", "--set", setting)).rejects.toThrow(
    `--set ${setting}: ask does not read ${why}`,
  );
});

test("the error for a team that is neither a run nor a recipe has the known names of both, to suggest one", async () => {
  const message = /^--team atlas-mgrpo-sed1: there is no such run here, and recipe 'atlas-mgrpo-sed1' does not exist: /;
  await expect(printedJson("ask", "Where?", "--team", "atlas-mgrpo-sed1")).rejects.toMatchObject({
    code: "not-found",
    message: expect.stringMatching(message),
    unknownNames: [
      { unknown: "atlas-mgrpo-sed1", known: expect.any(Array) },
      { unknown: "atlas-mgrpo-sed1", known: expect.arrayContaining(["atlas"]) },
    ],
  });
});

/** The lines that `narrate` writes for the events that `tell` sends, without colors. */
function treeLines(tell: (narrate: OnProgress) => void): string[] {
  const lines: string[] = [];
  tell(asTree((line) => lines.push(stripVTControlCharacters(line))));
  return lines;
}

const ended = (answer: string | null) => ({
  kind: "end" as const,
  conversation: {
    prompt: "",
    turns: [],
    stop: answer ? ("answered" as const) : ("malformed" as const),
    answer,
    fault: answer ? null : "no call",
  },
});

test("on a terminal the events are a tree; delegations that run at the same time are numbered", () => {
  const main = { agent: "main", path: [] };
  const first = { agent: "searcher", path: [0] };
  const second = { agent: "searcher", path: [1] };
  const reader = { agent: "reader", path: [1, 0] };
  const page = {
    call: { name: "visit", arguments: { title: "Peru" } },
    response: { name: "visit", text: "Capital: Lima\u001b[2J" },
  };
  const lines = treeLines((narrate) => {
    narrate(main, { kind: "prompt", prompt: "Where?" });
    narrate(main, { kind: "turn", turn: { text: "Two tasks.<tool_call>{}</tool_call>", calls: [], responses: [] } });
    narrate(first, { kind: "prompt", prompt: "Peru" });
    narrate(second, { kind: "prompt", prompt: "Chile" });
    narrate(first, { kind: "response", ...page });
    narrate(first, ended("Lima"));
    narrate(reader, { kind: "prompt", prompt: "a page of Chile" });
    narrate(reader, ended("Santiago"));
    narrate(second, ended(null));
    narrate(main, ended("Lima"));
  });
  expect(lines).toEqual([
    "main",
    "├─ …",
    "│    Two tasks.",
    "├─ delegate 1 → searcher  Peru",
    "├─ delegate 2 → searcher  Chile",
    '│  ├─ 1· visit  {"title":"Peru"}',
    "│  │    Capital: Lima [2J",
    "│  └─ 1· answer  Lima",
    "│  ├─ delegate 2.1 → reader  a page of Chile",
    "│  │  └─ 2.1· answer  Santiago",
    "│  └─ malformed  no call",
    "└─ answer  Lima",
  ]);
});

test("an app's agents each count their own conversations: those with the same number are told apart by the agent", () => {
  const searcher = { agent: "searcher", path: [0] };
  const reader = { agent: "reader", path: [0] };
  const lines = treeLines((narrate) => {
    narrate(searcher, { kind: "prompt", prompt: "Peru" });
    narrate(reader, { kind: "prompt", prompt: "a page" });
    narrate(reader, ended("Santiago"));
    narrate(searcher, ended("Lima"));
  });
  expect(lines).toEqual([
    "├─ delegate 1 → searcher  Peru",
    "├─ delegate 1 → reader  a page",
    "│  └─ reader 1· answer  Santiago",
    "│  └─ answer  Lima",
  ]);
});
