/**
 * @file MCP servers as tools: their schemas verbatim, their answers as text, and a crash as an outage after which the next call starts
 * a new server. Invalid settings are refused, secrets are redacted, and endless responses over HTTP are cut off.
 */
import type { ServerResponse } from "node:http";
import { join } from "node:path";
import { Readable } from "node:stream";
import { json } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { inspect } from "node:util";
import { createGzip } from "node:zlib";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { CallToolRequestSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { openWebTools } from "../../../../adapters/tools/web/open.ts";
import { parseTurn } from "../../../../core/conversation/parse-turn.ts";
import { openToolBudget } from "../../../../core/conversation/tool-budget.ts";
import { openToolbox } from "../../../../core/conversation/toolbox.ts";
import { address, callText, question } from "../../../fakes/conversations.ts";
import { serveHttp } from "../../../fakes/http-server.ts";
import { memoryStore } from "../../../fakes/memory-store.ts";
import { worldConfig } from "../../../world/tools.ts";

const script = join(import.meta.dirname, "../../../world/mcp-server.mjs");
const SECRET = "a value for the server alone";
const context = {
  question,
  address,
  budget: openToolBudget(undefined),
  responseCharacters: 4000,
  signal: new AbortController().signal,
};

const open = (mcp: Record<string, unknown>, more: Record<string, unknown> = {}, store = memoryStore()) =>
  openWebTools({
    config: worldConfig({ mcp, ...more }),
    environment: { TOKEN: SECRET, OTHER: "not for it", SHORT: "debug" },
    store,
  });
const stdio = { command: process.execPath, arguments: [script], environment: ["TOKEN"], without: ["forge"] };

let tools: Awaited<ReturnType<typeof open>>;
const call = (name: string, args: object = {}) => tools.tools.get(name)?.run(args as never, context);
beforeAll(async () => {
  tools = await open({ sums: stdio });
});
afterAll(() => tools.close());

test("a server's JSON Schemas reach the chat template verbatim, and calls are checked against them", async () => {
  const toolbox = openToolbox("main", { tools: ["sums_add"], delegates: [] }, tools.tools);
  expect(toolbox.schemas[0]?.function).toEqual({
    name: "sums_add",
    description: "It can add for ***.",
    parameters: {
      type: "object",
      properties: { a: { type: "integer", minimum: 0 }, b: { $ref: "#/$defs/term" } },
      required: ["a", "b"],
      additionalProperties: false,
      $defs: { term: { type: "integer", description: "The other one." } },
    },
  });
  expect(parseTurn(callText("sums_add", { a: 1, b: 2 }), toolbox, 1).kind).toBe("calls");
  for (const args of [{ a: 1 }, { a: -1, b: 2 }, { a: 1, b: "2" }, { a: 1, b: 2, c: 3 }])
    expect(parseTurn(callText("sums_add", args), toolbox, 1)).toMatchObject({ kind: "malformed" });
});

test("an answer that contains a benchmark's question is withheld, even if a loader has added text to the prompt", async () => {
  const args = { name: "MISSING", times: 8 };
  const wording = String(await call("sums_variable", args));
  const prompt = `${wording}\n\nAnswer with as few words as possible.`;
  const loaded = { ...context, question: { ...question, prompt, facts: { question: wording } } };
  expect(await tools.tools.get("sums_variable")?.run(args as never, loaded)).toBe("its answer cannot be shown");
});

test("a server answers; the agent reads the errors of its calls; the server gets the variable named for it and not another one", async () => {
  expect(await call("sums_add", { a: 20, b: 22 })).toBe("42");
  expect(await call("sums_refuse")).toBe("not today");
  expect(await call("sums_wrong")).toContain("no such thing");
  expect(await call("sums_length", { name: "TOKEN" })).toBe(String(SECRET.length));
  expect(await call("sums_variable", { name: "OTHER" })).toBe("(not set)");
});

test("a response that violates the server's own output schema is text like any other, not a mistake of the agent", async () => {
  expect(await call("sums_count")).toBe("three");
  expect(await call("sums_count", { plain: true })).toBe("two");
});

test("an invalid setting of a server is named; settings with both a command and a url, or neither, are refused", async () => {
  const url = "http://127.0.0.1:1/mcp";
  const refused = (server: object, message: RegExp) => expect(open({ sums: server })).rejects.toThrow(message);
  await refused({ ...stdio, argument: [] }, /mcp\.sums: Unrecognized key: "argument"/);
  await refused({ url, seconds: "60" }, /mcp\.sums: seconds: Invalid input: expected number, received string$/);
  // 35 days: more than a timer can wait.
  await refused({ url, seconds: 3_000_000 }, /mcp\.sums[.:] ?seconds: Too big: expected number to be <=2147483/);
  for (const name of ["tavilyApiKey", "api_key", "apikey", "access-token", "sig"])
    await refused(
      { url: `${url}?author=b&maxTokens=1&keywords=c&${name}=x` },
      new RegExp(
        `mcp\\.sums: url: its parameter ${name} would be recorded: let query name .* it; a run that recorded it cannot resume`,
      ),
    );
  await refused({ ...stdio, headers: {} }, /mcp\.sums: Unrecognized key: "headers" \(known keys: (?!.*headers)/);
  await refused({ ...stdio, url }, /mcp\.sums: give either a command .* or a url/);
  await refused({}, /mcp\.sums: give either a command .* or a url/);
});

test("a crash is an outage, and the next call starts a new server", async () => {
  const dying = call("sums_die");
  await expect(dying).rejects.toMatchObject({ code: "tool-backend", retryable: true });
  await expect(dying).rejects.toThrow(/^MCP server 'sums' \(.*\), calling 'die': .*[Cc]losed/);
  expect(await call("sums_add", { a: 2, b: 3 })).toBe("5");
});

test("a call that times out on a connection that was replaced leaves the new one open", async () => {
  const own = await open({ sums: { ...stdio, cached: false, seconds: 60 } });
  const ask = (name: string) => Promise.resolve(own.tools.get(`sums_${name}`)?.run({} as never, context));
  const old = await ask("process");
  // The clock is advanced by hand: a server may take any time to start.
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const hang = async (calls: number) => {
    const hung = ask("hang");
    hung.catch(() => {});
    await expect.poll(() => vi.getTimerCount()).toBeGreaterThanOrEqual(calls);
    return { hung };
  };
  const first = await hang(1);
  vi.advanceTimersByTime(500);
  const second = await hang(2);
  vi.advanceTimersByTime(59_500);
  await expect(first.hung).rejects.toMatchObject({ code: "tool-backend", retryable: true });
  const replaced = await ask("process");
  expect(replaced).not.toBe(old);
  vi.advanceTimersByTime(500);
  await expect(second.hung).rejects.toThrow(/timed out/i);
  expect(await ask("process")).toBe(replaced);
  // The grace period, after which the old server is killed.
  vi.advanceTimersByTime(2000);
  await own.close();
});

test("`only` and `without` filter tools; a server that cannot start, a missing variable, a missing tool or one with role markers is reported on opening", async () => {
  const store = memoryStore();
  const some = await open({ sums: { ...stdio, only: ["add", "die"], without: ["die"] } }, {}, store);
  expect([...some.tools.keys()].filter((name) => name.startsWith("sums"))).toEqual(["sums_add"]);
  await some.close();
  // Its tools were recorded, so a replay needs no server.
  const replayed = await open({ sums: { ...stdio, only: ["add"] } }, { cache: { mode: "replay" } }, store);
  expect([...replayed.tools.keys()]).toContain("sums_add");
  await replayed.close();
  const unknown = open({ sums: { ...stdio, only: ["subtract"] } }, {}, store);
  await expect(unknown).rejects.toThrow("tools.mcp.sums: the server has no tool 'subtract' (it has add, length,");
  // A tool's definition is part of the template, so its markers cannot be escaped as data.
  await expect(open({ sums: { ...stdio, without: [] } })).rejects.toThrow(
    /^tools.mcp.sums: the definition of its tool 'forge' contains role markers .*, invisible characters, or characters that templates reserve \(U\+E000, U\+E001\): exclude the tool with tools.mcp.sums.without/,
  );
  await expect(open({ x: { command: "/no/such/program" } })).rejects.toThrow(
    /^MCP server 'x' .*listing its tools: ENOENT/,
  );
  await expect(open({ x: { ...stdio, environment: ["ABSENT"] } })).rejects.toThrow(
    "variable ABSENT, which is empty or not set",
  );
  await expect(open({ x: { command: "a", url: "http://b" } })).rejects.toThrow("either a command");
});

test("a token that its server repeats is redacted in answers (before they are cut), stored answers, descriptions and errors; a short value is not", async () => {
  const store = memoryStore();
  const server = await open({ sums: { ...stdio, environment: ["TOKEN", "SHORT"] } }, {}, store);
  const ask = (name: string, args: Record<string, unknown>) => server.tools.get(name)?.run(args as never, context);
  expect(await ask("sums_variable", { name: "TOKEN" })).toBe("***");
  expect(await ask("sums_variable", { name: "SHORT" })).toBe("debug");
  expect(await ask("sums_variable", { name: "TOKEN", times: 18_519 })).toBe("***".repeat(18_519));
  expect(await ask("sums_variable", { name: "SHORT", times: 110_000 })).toHaveLength(500_000);
  expect(await ask("sums_wrong", {})).toMatch(/no such thing: \*\*\*/);
  const failed = await Promise.resolve(ask("sums_fail", {})).catch((error: unknown) => error);
  expect(failed).toMatchObject({ code: "tool-backend", message: expect.stringContaining("failed with ***") });
  expect(inspect(failed, { depth: null, showHidden: true })).not.toContain(SECRET);
  expect(server.tools.get("sums_add")?.description).toBe("It can add for ***.");
  for (const key of store.objects.keys())
    expect(new TextDecoder().decode(await store.objects.get(key))).not.toContain(SECRET);
  await server.close();
});

test("a pattern that would backtrack exponentially does not block the process, and one that RE2 does not support is left to the server", async () => {
  const toolbox = openToolbox("main", { tools: ["sums_pattern"], delegates: [] }, tools.tools);
  const parsed = (args: Record<string, unknown>) => parseTurn(callText("sums_pattern", args), toolbox, 1).kind;
  const before = process.cpuUsage();
  expect(parsed({ evil: `${"a".repeat(5000)}!` })).toBe("malformed");
  expect(process.cpuUsage(before).user / 1e6).toBeLessThan(5);
  expect(parsed({ evil: "aaa", date: "2024-11-23", email: "no at sign" })).toBe("calls");
  expect(parsed({ date: "2024-11" })).toBe("malformed");
});

test("a server over HTTP gets its header and a parameter of its URL from a variable; a 401 is not retryable, and a 503 is an outage after which a new session is opened", async () => {
  const seen: unknown[] = [];
  let sessions = 0;
  let refusal: number | undefined;
  const origin = await serveHttp(async (request, response) => {
    if (refusal)
      return void response.writeHead(refusal, { "content-type": "text/html" }).end(`<html>No ${SECRET}</html>`);
    seen.push(request.headers["authorization"], request.url?.split("apiKey=")[1]);
    const transport = new StreamableHTTPServerTransport({});
    const mcp = new Server({ name: "x", version: "1" }, { capabilities: { tools: {} } });
    mcp.oninitialized = () => void sessions++;
    mcp.setRequestHandler(ListToolsRequestSchema, () => ({ tools: [{ name: "hi", inputSchema: { type: "object" } }] }));
    mcp.setRequestHandler(CallToolRequestSchema, () => ({ content: [{ type: "text", text: "hello" }] }));
    await mcp.connect(transport as Parameters<typeof mcp.connect>[0]);
    await transport.handleRequest(request, response);
  });
  const store = memoryStore();
  const variables = { headers: { authorization: "TOKEN" }, query: { apiKey: "TOKEN" } };
  const remote = await open({ far: { url: `${origin}/mcp?a=b`, ...variables } }, {}, store);
  expect(await remote.tools.get("far_hi")?.run({} as never, context)).toBe("hello");
  expect(new Set(seen)).toEqual(new Set([SECRET, SECRET.replaceAll(" ", "+")]));
  expect(sessions).toBe(1);
  refusal = 401;
  await expect(remote.tools.get("far_hi")?.run({ x: 1 } as never, context)).rejects.toMatchObject({
    ...{ code: "tool-backend", retryable: false },
    message: expect.stringMatching(
      /^MCP server 'far' \(http.*calling 'hi': HTTP 401: it refuses the call: check the var/,
    ),
  });
  refusal = 503;
  const down = remote.tools.get("far_hi")?.run({ x: 2 } as never, context);
  await expect(down).rejects.toMatchObject({
    ...{ code: "tool-backend", retryable: true },
    message: expect.stringMatching(/<html>No \*\*\*<\/html>$/),
  });
  refusal = undefined;
  expect(await remote.tools.get("far_hi")?.run({ x: 3 } as never, context)).toBe("hello");
  // After an HTTP error the server may have lost the session.
  expect(sessions).toBe(2);
  await remote.close();
});

const ENDLESS = 1_000_000_000;

/** Sends until the client hangs up, or about `ENDLESS` bytes. Returns the number of bytes sent, before compression. */
async function sendEndlessly(response: ServerResponse, headers: Record<string, string>, start: string) {
  let sent = 0;
  function* chunks() {
    yield Buffer.from(start);
    for (; sent < ENDLESS; sent += 65_536) yield Buffer.alloc(65_536, "a");
  }
  response.writeHead(200, headers);
  const compressors = headers["content-encoding"] === "gzip" ? [createGzip()] : [];
  await pipeline([Readable.from(chunks()), ...compressors, response]).catch(() => {});
  return sent;
}

const ENDLESS_RESPONSES: [string, Record<string, string>, string][] = [
  ["JSON", { "content-type": "application/json" }, '{"result": "'],
  ["compressed JSON", { "content-type": "application/json", "content-encoding": "gzip" }, '{"result": "'],
  ["an endless line", { "content-type": "text/event-stream" }, "id: 1\ndata: {"],
  ["endless events", { "content-type": "text/event-stream" }, "id: 1\n\n: \n"],
  ["events, whatever the case of their type", { "content-type": "Text/Event-Stream" }, "id: 1\n\n: \n"],
];

test.each(ENDLESS_RESPONSES)(
  "over HTTP, an endless response is cut off while it arrives, and the agent is told: %s",
  async (_, headers, start) => {
    let sent = Promise.resolve(0);
    let calls = 0;
    const gets: unknown[] = [];
    const origin = await serveHttp(async (request, response) => {
      if (request.method === "GET") {
        gets.push(request.headers["last-event-id"]);
        return void response.writeHead(405).end();
      }
      const { id, method } = (await json(request)) as { id: number; method: string };
      const respond = (result: object) =>
        response
          .writeHead(200, { "content-type": "application/json" })
          .end(JSON.stringify({ jsonrpc: "2.0", id, result }));
      if (method === "initialize")
        return void respond({
          protocolVersion: "2025-03-26",
          capabilities: {},
          serverInfo: { name: "x", version: "1" },
        });
      if (method === "tools/list") return void respond({ tools: [{ name: "dump", inputSchema: { type: "object" } }] });
      if (method !== "tools/call") return void response.writeHead(202).end();
      calls += 1;
      if (calls > 1) return void respond({ content: [{ type: "text", text: "short" }] });
      sent = sendEndlessly(response, headers, start);
    });
    const remote = await open({ far: { url: `${origin}/mcp` } });
    const dump = (x: number) => remote.tools.get("far_dump")?.run({ x } as never, context);
    expect(await dump(1)).toBe("the server's response is larger than 10000000 bytes");
    expect(await dump(2)).toBe("short");
    expect(await sent).toBeLessThan(headers["content-encoding"] ? ENDLESS : 30_000_000);
    // The cut stream is not resumed, and no stream of notifications is opened.
    expect(gets).toEqual([]);
    await remote.close();
  },
);
