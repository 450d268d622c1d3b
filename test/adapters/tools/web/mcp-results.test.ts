/**
 * @file What an MCP server returns over HTTP: millions of faulty items are refused at once, a list of tools has limits, and the text and links of a
 * result are shown. The arguments that the server receives are well-formed Unicode.
 */
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { resultText } from "../../../../adapters/tools/web/mcp/results.ts";
import { type McpServer, openMcpServer } from "../../../../adapters/tools/web/mcp/server.ts";
import { serveHttp } from "../../../fakes/http-server.ts";

const COMMON = { only: null, without: [], seconds: 60, cached: false, requestsPerSecond: 10, usdPerCall: 0 };
const GREETING = { protocolVersion: "2025-03-26", capabilities: {}, serverInfo: { name: "x", version: "1" } };

/** The client of a server that returns these results: the JSON of each, by method. */
async function openWith(results: Record<string, string>, onCall?: (params: unknown) => void): Promise<McpServer> {
  const origin = await serveHttp(async (request, response) => {
    const { id, method, params } = JSON.parse(await text(request));
    if (method === "tools/call") onCall?.(params);
    const result = { initialize: JSON.stringify(GREETING), ...results }[method as string];
    if (result === undefined) return void response.writeHead(202).end();
    response.writeHead(200, { "content-type": "application/json" });
    response.end(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`);
  });
  const server = openMcpServer(
    "far",
    { ...COMMON, url: `${origin}/mcp`, headers: {}, query: {} },
    () => "",
    (text) => text,
  );
  onTestFinished(() => server.close());
  return server;
}

/** A JSON array of about this many bytes. */
const many = (item: string, bytes: number) => `[${`${item},`.repeat(bytes / (item.length + 1))}${item}]`;

test.each<[string, Record<string, string>, RegExp, (server: McpServer) => Promise<unknown>]>([
  [
    "blocks",
    { "tools/call": `{"content":${many("{}", 9e6)}}` },
    /calling 'x': .*type/,
    (server) => server.call("x", {}),
  ],
  [
    "tools",
    { "tools/list": `{"tools":${many("{}", 9e6)}}` },
    /lists more than 1000 tools$/,
    (server) => server.tools(),
  ],
  [
    "pages of tools",
    { "tools/list": '{"nextCursor":"more","tools":[]}' },
    /lists more than 100 pages of tools$/,
    (server) => server.tools(),
  ],
  [
    "icons of a tool",
    { "tools/list": `{"tools":[{"name":"a","icons":${many("{}", 9e6)}}]}` },
    /listing its tools: .*inputSchema/,
    (server) => server.tools(),
  ],
  [
    "icons of the server",
    { initialize: JSON.stringify(GREETING).replace('"x"', `"x","icons":${many("{}", 9e6)}`) },
    /the server's response is larger than 200000 bytes$/,
    (server) => server.tools(),
  ],
  [
    "levels of a schema",
    { "tools/list": `{"tools":[{"name":"a","inputSchema":{"x":${"[".repeat(1e5)}${"]".repeat(1e5)}}}]}` },
    /listing its tools: /,
    (server) => server.tools(),
  ],
])("a server that sends a great many %s causes an outage, at once", async (_, results, message, ask) => {
  const server = await openWith(results);
  const before = process.cpuUsage();
  const failed = await ask(server).catch((error: unknown) => error);
  expect(failed).toMatchObject({ code: "tool-backend", message: expect.stringMatching(message) });
  expect(process.cpuUsage(before).user / 1e6).toBeLessThan(10);
});

test("a list of tools has at most 10,000,000 characters, over all its pages", async () => {
  const schema = `{"type":"object","description":"${"d".repeat(4e6)}"}`;
  const server = await openWith({
    "tools/list": `{"nextCursor":"more","tools":[{"name":"a","inputSchema":${schema}}]}`,
  });
  await expect(server.tools()).rejects.toThrow(/it describes its tools in more than 10000000 characters$/);
});

test("text and links are shown, other content only by its kind, structured content only if there is no other; a faulty block throws", () => {
  const content = [
    { type: "text", text: "one", annotations: { audience: ["user"] } },
    { type: "resource", resource: { uri: "a:b", text: "two" } },
    { type: "resource", resource: { uri: "a:b", blob: "AAAA" } },
    { type: "resource_link", name: "three", uri: "https://a.test/" },
    { type: "image", data: "AAAA", mimeType: "image/png" },
  ];
  expect(resultText({ content }).split("\n")).toEqual([
    "one",
    "two",
    "(resource that cannot be shown as text)",
    "[three](https://a.test/)",
    "(image that cannot be shown as text)",
  ]);
  expect(resultText({ content: [], structuredContent: { n: 3 } })).toBe('{"n":3}');
  expect(resultText({ content: [] })).toBe("(no content)");
  expect(() => resultText({ content: [{ type: "text" }] })).toThrow();
});

test("an unpaired surrogate in the arguments, for which Python servers drop the message, is sent as U+FFFD", async () => {
  let sent: unknown;
  const server = await openWith({ "tools/call": '{"content":[]}' }, (params) => {
    sent = params;
  });
  await server.call("x", { city: "cut \ud83d off" });
  expect(sent).toMatchObject({ arguments: { city: "cut \ufffd off" } });
});
