/** @file A worker that cannot be composed leaves no tools open; a worker's engine reports outages of its server. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test, vi } from "vitest";
import { TINKER_FILE } from "../../engine/tinker/version.ts";
import { compose, findEngines } from "../../gpu-workers/compose.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { serveHttp } from "../fakes/http-server.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { appConfig } from "../fixtures/relay/start.ts";
import { begin, openWorld } from "../fixtures/relay/world.ts";

const recipe = mkdtempSync(join(tmpdir(), "compose-"));
afterAll(() => rmSync(recipe, { recursive: true, force: true }));

test("a worker without its app's secret is refused, and leaves none of its recipe's tools open", async () => {
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

test("the engine of a Tinker policy reports an outage of its server, and continues once the server responds again", async () => {
  const statuses = [503, 200];
  const policy = `tinker:${await serveHttp((_, response) => response.writeHead(statuses.shift() ?? 500).end("{}"))}`;
  const [main] = Object.values(appConfig().agents);
  if (!main) expect.fail("the config has no agents");
  const onOutage = vi.fn();
  const engines = await findEngines({ main: { ...main, policy } }, undefined, { onOutage });
  const version = { baseModel: "b", rank: 8, seed: 1, weights: "tinker://run:train:0/weights/one" };
  await engines.get(policy)?.discard?.(new Map([[TINKER_FILE, new TextEncoder().encode(JSON.stringify(version))]]));
  expect(onOutage).toHaveBeenCalledExactlyOnceWith(expect.stringMatching(/^DELETE .* answered 503/));
  expect(statuses).toEqual([]);
});
