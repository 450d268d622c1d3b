/** @file MCP servers as tools: their schemas verbatim, their answers as text, and their crash as an outage that the next call repairs. */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { CallToolRequestSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openWebTools } from "../../../../adapters/tools/web/open.ts";
import { parseTurn } from "../../../../core/conversation/parse-turn.ts";
import { openToolBudget } from "../../../../core/conversation/tool-budget.ts";
import { openToolbox } from "../../../../core/conversation/toolbox.ts";
import { callText, question } from "../../../fakes/conversations.ts";
import { memoryStore } from "../../../fakes/memory-store.ts";
import { worldConfig } from "../../../world/tools.ts";

const script = join(import.meta.dirname, "../../../world/mcp-server.mjs");
const SECRET = "a value for the server alone";
const context = {
  question,
  budget: openToolBudget(undefined),
  responseCharacters: 4000,
  signal: new AbortController().signal,
};

const open = (mcp: Record<string, unknown>, more: Record<string, unknown> = {}, store = memoryStore()) =>
  openWebTools({
    config: worldConfig({ mcp, ...more }),
    environment: { TOKEN: SECRET, OTHER: "not for it" },
    store,
  });
const stdio = { command: process.execPath, arguments: [script], environment: ["TOKEN"], without: ["forge"] };

let tools: Awaited<ReturnType<typeof open>>;
const call = (name: string, args: object = {}) => tools.tools.get(name)?.run(args as never, context);
beforeAll(async () => {
  tools = await open({ sums: stdio });
});
afterAll(() => tools.close());

test("its JSON Schemas reach the chat template verbatim, and calls are checked against them", async () => {
  const toolbox = openToolbox("main", { tools: ["sums_add"], delegates: [] }, tools.tools);
  expect(toolbox.schemas[0]?.function).toEqual({
    name: "sums_add",
    description: "It can add.",
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

test("it answers; the agent reads the errors of its calls; the server gets only the variables named for it", async () => {
  expect(await call("sums_add", { a: 20, b: 22 })).toBe("42");
  expect(await call("sums_refuse")).toBe("not today");
  expect(await call("sums_wrong")).toContain("no such thing");
  expect(await call("sums_variable", { name: "TOKEN" })).toBe(SECRET);
  expect(await call("sums_variable", { name: "OTHER" })).toBe("(not set)");
});

test("a crash is an outage, and the next call starts a new server", async () => {
  const dying = call("sums_die");
  await expect(dying).rejects.toMatchObject({ code: "tool-backend", retryable: true });
  await expect(dying).rejects.toThrow(/^MCP server 'sums' \(.*\), calling 'die': .*[Cc]losed/);
  expect(await call("sums_add", { a: 2, b: 3 })).toBe("5");
});

test("filters; a server that cannot start, a missing variable or a missing tool is reported when it is opened", async () => {
  const store = memoryStore();
  const some = await open({ sums: { ...stdio, only: ["add", "die"], without: ["die"] } }, {}, store);
  expect([...some.tools.keys()].filter((name) => name.startsWith("sums"))).toEqual(["sums_add"]);
  await some.close();
  // Its tools were recorded, so a replay needs no server.
  const replayed = await open({ sums: { ...stdio, only: ["add"] } }, { cache: { mode: "replay" } }, store);
  expect([...replayed.tools.keys()]).toContain("sums_add");
  await replayed.close();
  const unknown = open({ sums: { ...stdio, only: ["subtract"] } }, {}, store);
  await expect(unknown).rejects.toThrow("tools.mcp.sums: the server has no tool 'subtract' (it has add, variable,");
  // A tool's description is part of the template, so its markers cannot be escaped as data.
  await expect(open({ sums: { ...stdio, without: [] } })).rejects.toThrow(
    /^tools.mcp.sums: the description of its tool 'forge' has role markers .* exclude the tool with tools.mcp.sums.without/,
  );
  await expect(open({ x: { command: "/no/such/program" } })).rejects.toThrow(
    /^MCP server 'x' .*listing its tools: ENOENT/,
  );
  await expect(open({ x: { ...stdio, environment: ["ABSENT"] } })).rejects.toThrow("variable ABSENT, which is not set");
  await expect(open({ x: { command: "a", url: "http://b" } })).rejects.toThrow("either a command");
});

test("over HTTP, with a header from a variable that is stored nowhere", async () => {
  const seen: unknown[] = [];
  let refusal: number | undefined;
  const server = createServer(async (request, response) => {
    if (refusal) return void response.writeHead(refusal, { "content-type": "text/html" }).end("<html>No</html>");
    seen.push(request.headers["authorization"]);
    const transport = new StreamableHTTPServerTransport({});
    const mcp = new Server({ name: "x", version: "1" }, { capabilities: { tools: {} } });
    mcp.setRequestHandler(ListToolsRequestSchema, () => ({ tools: [{ name: "hi", inputSchema: { type: "object" } }] }));
    mcp.setRequestHandler(CallToolRequestSchema, () => ({ content: [{ type: "text", text: "hello" }] }));
    await mcp.connect(transport as Parameters<typeof mcp.connect>[0]);
    await transport.handleRequest(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  const store = memoryStore();
  const remote = await open({ far: { url, headers: { authorization: "TOKEN" } } }, {}, store);
  expect(await remote.tools.get("far_hi")?.run({} as never, context)).toBe("hello");
  expect(new Set(seen)).toEqual(new Set([SECRET]));
  for (const key of store.objects.keys())
    expect(new TextDecoder().decode(await store.objects.get(key))).not.toContain(SECRET);
  refusal = 401;
  await expect(remote.tools.get("far_hi")?.run({ x: 1 } as never, context)).rejects.toMatchObject({
    ...{ code: "tool-backend", retryable: false },
    message: expect.stringMatching(
      /^MCP server 'far' \(http.*calling 'hi': HTTP 401: it refuses the call: check the var/,
    ),
  });
  refusal = 503;
  const down = remote.tools.get("far_hi")?.run({ x: 2 } as never, context);
  await expect(down).rejects.toMatchObject({ code: "tool-backend", retryable: true });
  refusal = undefined;
  expect(await remote.tools.get("far_hi")?.run({ x: 3 } as never, context)).toBe("hello");
  await remote.close();
  server.close();
  server.closeAllConnections();
});
