/** @file A worker that cannot be composed leaves nothing open. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { compose } from "../../gpu-workers/compose.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { appConfig } from "../fixtures/relay/app.ts";
import { begin, openWorld } from "../fixtures/relay/world.ts";

const recipe = mkdtempSync(join(tmpdir(), "compose-"));
afterAll(() => rmSync(recipe, { recursive: true, force: true }));

test("a worker whose app has no secret is refused, and no tool of its recipe stays open", async () => {
  writeFileSync(
    join(recipe, "tools.ts"),
    `export const policies = new Map([["relay", {}]]);
    export const tools = async () => {
      globalThis.openedTools = (globalThis.openedTools ?? 0) + 1;
      return { tools: new Map(), close: async () => { globalThis.openedTools -= 1; } };
    };`,
  );
  const store = memoryStore();
  const { functions } = openWorld(store);
  const runner = { url: "http://127.0.0.1:9/", secretVariable: "NO_SUCH_SECRET" };
  const config = { ...appConfig({ runner }), recipe };
  await begin(store, functions, config);
  await expect(
    compose(
      config.run,
      store,
      createLog(() => {}),
    ),
  ).rejects.toThrow(/runner.url: set NO_SUCH_SECRET/);
  expect((globalThis as { openedTools?: number }).openedTools ?? 0).toBe(0);
});
