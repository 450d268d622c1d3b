/**
 * @file The list of an MCP server's tools: a list with a tool twice, or with characters that templates reserve, is refused, and only a list that is
 * accepted is stored.
 */
import { join } from "node:path";
import { expect, test } from "vitest";
import type { ExternalCalls } from "../../../../adapters/tools/web/external/calls.ts";
import type { McpServer } from "../../../../adapters/tools/web/mcp/server.ts";
import { mcpTools } from "../../../../adapters/tools/web/mcp/tools.ts";
import { openWebTools } from "../../../../adapters/tools/web/open.ts";
import { WebSettings } from "../../../../adapters/tools/web/settings.ts";
import { memoryStore } from "../../../fakes/memory-store.ts";
import { worldConfig } from "../../../world/tools.ts";

const script = join(import.meta.dirname, "../../../world/mcp-server.mjs");

function open(...without: string[]) {
  const sums = { command: process.execPath, arguments: [script, "add"], without: ["forge", ...without] };
  return openWebTools({ config: worldConfig({ mcp: { sums } }), environment: {}, store: memoryStore() });
}

test("a server that lists a tool twice is refused, and the message names the setting that excludes the tool", async () => {
  await expect(open()).rejects.toMatchObject({
    code: "config-invalid",
    message: "tools.mcp.sums: the server lists two tools named 'add': exclude them with tools.mcp.sums.without",
  });
  const { tools, close } = await open("add");
  expect([...tools.keys()]).toContain("sums_length");
  expect([...tools.keys()]).not.toContain("sums_add");
  await close();
});

test("a list that is refused is not stored, so the server is asked again once it has been fixed", async () => {
  const store = memoryStore();
  const openWith = (repeated: string, more: object = {}) => {
    const sums = { command: process.execPath, arguments: [script], environment: ["REPEATED"], without: ["forge"] };
    const config = worldConfig({ mcp: { sums: { ...sums, ...more } } });
    return openWebTools({ config, environment: { REPEATED: repeated }, store });
  };
  await expect(openWith("add")).rejects.toThrow("lists two tools named 'add'");
  await expect(openWith("none", { only: ["subtract"] })).rejects.toThrow(/has no tool 'subtract' \(it has [\w, ]+\)$/);
  expect(store.objects.keys()).toEqual([]);
  const { tools, close } = await openWith("none");
  expect([...tools.keys()]).toContain("sums_add");
  await close();
  await expect(openWith("none", { only: ["subtract"] })).rejects.toThrow(
    /has no tool 'subtract' \(it has [\w, ]+, according to the cached list: if the server has changed, use another tools\.cache\.folder/,
  );
});

test("a definition with the characters that stand for content while a template is rendered is refused", async () => {
  const settings = WebSettings.parse({ mcp: { far: { command: "node" } } }).mcp["far"];
  const calls = { call: (_request, _schema, _usd, ask) => ask() } satisfies Pick<ExternalCalls, "call">;
  const tools = [{ name: "map", description: "The map of \uE000turn-0\uE001.", schema: { type: "object" } }];
  const server: Pick<McpServer, "tools"> = { tools: async () => tools };
  await expect(mcpTools("far", settings as never, server as McpServer, calls as ExternalCalls)).rejects.toThrow(
    /^tools.mcp.far: the definition of its tool 'map' contains .*, or characters that templates reserve .*: exclude the tool/,
  );
});
