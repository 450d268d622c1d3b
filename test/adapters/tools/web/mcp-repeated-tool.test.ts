/** @file An MCP server that lists a tool twice. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { openWebTools } from "../../../../adapters/tools/web/open.ts";
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
