/**
 * @file The connection to an MCP server: `close` leaves no process behind, an HTTP error becomes one line and fails no other call, a process
 * that ends says why, a header that cannot be sent and a redirect to another origin are refused, a stream that breaks off is resumed, and a
 * server cannot demand connections, streams or tools without bound.
 */
import type { RequestListener, ServerResponse } from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { Agent, getGlobalDispatcher, setGlobalDispatcher } from "undici";
import { expect, onTestFinished, test, vi } from "vitest";
import { type McpServer, openMcpServer } from "../../../../adapters/tools/web/mcp/server.ts";
import { MgrpoError } from "../../../../core/errors.ts";
import { serveHttp } from "../../../fakes/http-server.ts";

const script = join(import.meta.dirname, "../../../world/mcp-server.mjs");
const COMMON = { only: null, without: [], seconds: 60, cached: false, requestsPerSecond: 10, usdPerCall: 0 };

const openServer = (
  address: { command: string; arguments: string[]; environment: string[] } | { url: string },
  seconds = COMMON.seconds,
) =>
  openMcpServer(
    "sums",
    "url" in address ? { ...COMMON, ...address, headers: {}, query: {}, seconds } : { ...COMMON, ...address, seconds },
    () => "",
    (text) => text,
  );

const serve = async (listener: RequestListener) => `${await serveHttp(listener)}/mcp`;

function respond(id: unknown, result: object, response: ServerResponse): void {
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ jsonrpc: "2.0", id, result }));
}

/** Answers `initialize`, and notifications. */
function greet(id: unknown, method: string, response: ServerResponse): void {
  const serverInfo = { name: "x", version: "1" };
  if (method === "initialize") respond(id, { protocolVersion: "2025-03-26", capabilities: {}, serverInfo }, response);
  else response.writeHead(202).end();
}

const openProcess = () => openServer({ command: process.execPath, arguments: [script], environment: [] });

test("a call after `close` is canceled", async () => {
  const server = openProcess();
  expect(await server.call("process", {})).toMatch(/^\d+$/);
  await server.close();
  await expect(server.call("process", {})).rejects.toMatchObject({
    code: "canceled",
    message: "MCP server 'sums', calling 'process': it was closed",
  });
});

/** Lets a call time out, then closes: `close` has to wait for a process that ignores the end of its input. */
async function giveUpAndClose(server: McpServer): Promise<void> {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const hung = server.call("hang", {});
  hung.catch(() => {});
  await expect.poll(() => vi.getTimerCount()).toBeGreaterThan(0);
  vi.advanceTimersByTime(60_000);
  await expect(hung).rejects.toThrow(/timed out/i);
  let isClosed = false;
  const closing = server.close().then(() => {
    isClosed = true;
  });
  for (let i = 0; i < 100; i++) await new Promise(setImmediate);
  expect(isClosed).toBe(false);
  // The grace period, after which the process is killed.
  vi.advanceTimersByTime(2000);
  await closing;
}

test("`close` waits for the end of a process that a timed-out call has given up on", async () => {
  const server = openProcess();
  const pid = Number(await server.call("process", {}));
  await giveUpAndClose(server);
  expect(() => process.kill(pid, 0)).toThrow("ESRCH");
});

test("`close` waits for the end of a process that has not initialized", async () => {
  const silent = ["-e", "setInterval(() => {}, 1000)"];
  await giveUpAndClose(openServer({ command: process.execPath, arguments: silent, environment: [] }));
});

test.each([
  [
    "a process",
    () => ({ command: process.execPath, arguments: ["-e", "setInterval(() => {}, 1000)"], environment: [] }),
  ],
  ["a URL", async () => ({ url: await serve(() => {}) })],
])("`close` does not wait for %s to initialize: the call in flight fails", async (_, address) => {
  const server = openServer(await address(), 3600);
  const listing = server.tools().catch((error: unknown) => error);
  await server.close();
  expect(await listing).toMatchObject({ code: "tool-backend", retryable: true });
});

test.each([
  ["a line", 'console.error("loading\\nthe key s3cret is not known")', "the key *** is not known"],
  ["an uncaught error", 'throw new Error("TOKEN required")', "Error: TOKEN required"],
  ["a line after more than is kept", 'console.error("x".repeat(20_000)); console.error("no port")', "no port"],
])("a process that ends with %s on standard error: the error contains it, redacted", async (_, code, last) => {
  const settings = { ...COMMON, command: process.execPath, arguments: ["-e", code], environment: [] };
  const server = openMcpServer(
    "sums",
    settings,
    () => "",
    (text) => text.replaceAll("s3cret", "***"),
  );
  const failed = await server.tools().catch((error: unknown) => error);
  expect(failed).toMatchObject({ code: "tool-backend", retryable: true });
  const { message } = failed as Error;
  expect(message.slice(message.indexOf("Connection"))).toBe(`Connection closed; it wrote to standard error: ${last}`);
  await server.close();
});

test("an HTTP error is one line, however long the page that comes with it", async () => {
  const page = `<html>\n${"<p>Try again later.</p>\n".repeat(1000)}</html>\n`;
  const url = await serve((_, response) => void response.writeHead(503, { "content-type": "text/html" }).end(page));
  const server = openServer({ url });
  const failed = await server.tools().catch((error: unknown) => error);
  expect(failed).toMatchObject({ code: "tool-backend", retryable: true });
  const { message } = failed as Error;
  expect(message).toMatch(
    /^MCP server 'sums' .*, listing its tools: .*<html> <p>Try again later.* bytes left out.*<\/html>$/,
  );
  expect(message.length).toBeLessThan(1200);
  await server.close();
});

test("a redirect to another origin is refused for good, and the other server receives no header", async () => {
  let requests = 0;
  const other = await serve((_, response) => {
    requests += 1;
    response.writeHead(503).end();
  });
  const url = await serve((_, response) => void response.writeHead(307, { location: other }).end());
  const server = openServer({ url });
  await expect(server.tools()).rejects.toMatchObject({
    code: "tool-backend",
    retryable: false,
    message: expect.stringMatching(
      /listing its tools: HTTP 307: it redirects elsewhere: check its url in the settings$/,
    ),
  });
  expect(requests).toBe(0);
  await server.close();
});

test.each([
  ["an HTTP error", (response: ServerResponse) => response.writeHead(503).end("busy")],
  ["a lost connection", (response: ServerResponse) => response.destroy()],
])("after %s the next call opens a new session, and a call in flight ends in the old one", async (_, fail) => {
  const answers: (() => void)[] = [];
  let sessions = 0;
  const url = await serve(async (request, response) => {
    const { id, method, params } = JSON.parse(await text(request));
    if (method === "initialize") sessions += 1;
    if (method !== "tools/call") return greet(id, method, response);
    if (params.arguments.fails) return void fail(response);
    answers.push(() => respond(id, { content: [{ type: "text", text: "late" }] }, response));
  });
  const server = openServer({ url });
  const slow = server.call("ask", {});
  slow.catch(() => {});
  await expect.poll(() => answers.length).toBe(1);
  await expect(server.call("ask", { fails: true })).rejects.toMatchObject({ code: "tool-backend", retryable: true });
  const next = server.call("ask", {});
  await expect.poll(() => answers.length).toBe(2);
  for (const answer of answers) answer();
  expect(await Promise.all([slow, next])).toEqual(["late", "late"]);
  expect(sessions).toBe(2);
  await server.close();
});

test("a call may take as long as `seconds` allows, however long its server is silent: fetch sets no limit of its own", async () => {
  const previous = getGlobalDispatcher();
  onTestFinished(() => setGlobalDispatcher(previous));
  // What ends a request of `fetch` after 300 seconds, here after about one.
  setGlobalDispatcher(new Agent({ headersTimeout: 100, bodyTimeout: 100 }));
  const silence = () => new Promise((resolve) => setTimeout(resolve, 2500));
  const url = await serve(async (request, response) => {
    const { id, method } = JSON.parse(await text(request));
    if (method !== "tools/call") return greet(id, method, response);
    await silence();
    response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
    await silence();
    const result = { content: [{ type: "text", text: "at last" }] };
    response.end(`data: ${JSON.stringify({ jsonrpc: "2.0", id, result })}\n\n`);
  });
  const server = openServer({ url });
  expect(await server.call("ask", {})).toBe("at last");
  await server.close();
}, 60_000);

test.each([
  ["authorization", "the value of TOKEN has characters that no header can hold"],
  ["an authorization", "no header can have this name"],
])("a header that cannot be sent is refused before any call, without its value: %s", (header, fault) => {
  const settings = { ...COMMON, url: "http://127.0.0.1:1/mcp", query: {}, headers: { [header]: "TOKEN" } };
  const open = () =>
    openMcpServer(
      "far",
      settings,
      () => "Bearer “quoted”",
      (text) => text,
    );
  expect(open).toThrow(new MgrpoError("config-invalid", `tools.mcp.far.headers.${header}: ${fault}`));
});

/** One event of a stream. `fields`: its other fields, one a line. */
const event = (message: object, fields = "") => `${fields}data: ${JSON.stringify({ jsonrpc: "2.0", ...message })}\n\n`;
const textResult = (text: string) => ({ content: [{ type: "text", text }] });

test("a server that sends thousands of requests gets at most ten replies at a time: each takes a connection, and a process has few", async () => {
  let replies = 0;
  const url = await serve(async (request, response) => {
    const { id, method } = JSON.parse(await text(request));
    // A reply, which is never acknowledged.
    if (method === undefined) return void replies++;
    if (method !== "tools/call") return greet(id, method, response);
    const pings = Array.from({ length: 3000 }, (_, i) => event({ id: i, method: "ping" }));
    response.writeHead(200, { "content-type": "text/event-stream" }).write(pings.join(""));
    await expect.poll(() => replies, { timeout: 20_000 }).toBeGreaterThanOrEqual(10);
    // Time in which more replies would arrive.
    await new Promise((resolve) => setTimeout(resolve, 500));
    response.end(event({ id, result: textResult("done") }));
  });
  const server = openServer({ url });
  expect(await server.call("ask", {})).toBe("done");
  expect(replies).toBe(10);
  await server.close();
});

test("a stream that breaks off is resumed while its call waits, and not after the call has ended with an error", async () => {
  const resumed: unknown[] = [];
  const url = await serve(async (request, response) => {
    const stream = () => response.writeHead(200, { "content-type": "text/event-stream" });
    if (request.method === "GET") {
      resumed.push(request.headers["last-event-id"]);
      return void stream().end(event({ id: 1, result: textResult("the rest") }, "retry: 0\nid: b\n"));
    }
    const { id, method, params } = JSON.parse(await text(request));
    if (method !== "tools/call") return greet(id, method, response);
    const error = { code: -32602, message: "no such city" };
    stream().end(params.name === "wrong" ? event({ id, error }, "retry: 0\nid: c\n") : "retry: 0\nid: a\ndata:\n\n");
  });
  const server = openServer({ url });
  expect(await server.call("broken", {})).toBe("the rest");
  expect(await server.call("wrong", {})).toContain("no such city");
  // Longer than the pause before a stream is resumed.
  await new Promise((resolve) => setTimeout(resolve, 1000));
  expect(resumed).toEqual(["a"]);
  await server.close();
});

test("a stream whose resumption fails once is resumed again", async () => {
  let resumed = 0;
  const url = await serve(async (request, response) => {
    const stream = () => response.writeHead(200, { "content-type": "text/event-stream" });
    if (request.method === "GET") {
      resumed += 1;
      if (resumed === 1) return void response.writeHead(500, { "content-type": "text/plain" }).end("restarting");
      return void stream().end(event({ id: 1, result: textResult("the rest") }));
    }
    const { id, method } = JSON.parse(await text(request));
    if (method !== "tools/call") return greet(id, method, response);
    stream().end("retry: 0\nid: a\ndata:\n\n");
  });
  const server = openServer({ url });
  expect(await server.call("broken", {})).toBe("the rest");
  expect(resumed).toBe(2);
  await server.close();
});

test("tools are listed whatever their output schemas, which nothing uses; a list of more than 1,000 tools is refused", async () => {
  let count = 1;
  const inputSchema = { type: "object" };
  const outputSchema = { type: "object", properties: { city: { $ref: "#/$defs/missing" } } };
  const url = await serve(async (request, response) => {
    const { id, method } = JSON.parse(await text(request));
    if (method !== "tools/list") return greet(id, method, response);
    const tools = Array.from({ length: count }, (_, i) => ({ name: `tool${i}`, inputSchema, outputSchema }));
    respond(id, { tools }, response);
  });
  const server = openServer({ url });
  expect(await server.tools()).toEqual([{ name: "tool0", description: "", schema: inputSchema }]);
  count = 1001;
  await expect(server.tools()).rejects.toThrow(/listing its tools: it lists more than 1000 tools$/);
  await server.close();
});
