/** @file The list of an MCP server's tools: a list with a tool twice is refused, and only a list that is accepted is stored. */
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
    /has no tool 'subtract' \(it has [\w, ]+, by its list in the cache: if it has changed, use another tools\.cache\.folder/,
  );
});
