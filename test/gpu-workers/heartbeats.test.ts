/** @file A worker's heartbeats reach the store throughout a training step of 10 seconds. */
import { expect, test } from "vitest";
import { tableKeys } from "../../core/contracts/keys.ts";
import { compiledEngine } from "../../engine/compiled/engine.ts";
import { register } from "../../gpu-workers/liveness/membership.ts";
import { openWorkerObserver } from "../../gpu-workers/liveness/observer.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { readRunContext } from "../../gpu-workers/run-context.ts";
import { OPTIONS, tinyCheckpoint } from "../engine/tiny.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { relayConfig } from "../fixtures/relay/start.ts";
import { begin, openWorld } from "../fixtures/relay/world.ts";

const STEP_SECONDS = 10;
const HEARTBEAT_SECONDS = 0.2;
const BLOCKED = new URL("../fixtures/blocked-engine.mjs", import.meta.url).href;

test("heartbeats continue during a training step of 10 seconds", { timeout: 90_000 }, async () => {
  Object.assign(process.env, { NODE_OPTIONS: `--import=${BLOCKED}`, MGRPO_TEST_BLOCK_SECONDS: STEP_SECONDS });
  // Also in this thread, so that an engine that worked here would block it.
  await import(BLOCKED);
  const config = relayConfig({ liveness: { heartbeatSeconds: HEARTBEAT_SECONDS, leaseSeconds: 2 } });
  const store = memoryStore();
  await begin(store, openWorld(store).functions, config);
  const run = await readRunContext(
    config.run,
    "0.0.0",
    store,
    createLog(() => {}),
  );
  const heartbeatStop = new AbortController();
  const registration = { agent: "main", roles: ["train"], url: "" } as const;
  const membership = await register(run, registration, openWorkerObserver(run), heartbeatStop.signal);
  const beating = membership.beat(heartbeatStop.signal);
  const beats = async () => Number((await store.table.get(tableKeys.worker(config.run, membership.id)))?.["counter"]);

  const trainer = await compiledEngine.openTrainer(tinyCheckpoint(), OPTIONS);
  const [before, since] = [await beats(), performance.now()];
  await trainer.forwardBackward([{ tokens: [1, 2, 3], weights_T: Float32Array.of(0, 1, 1) }], { kind: "linear" }, 1);
  const sent = (await beats()) - before;
  expect(performance.now() - since).toBeGreaterThanOrEqual(STEP_SECONDS * 1000);
  // Other processes may occupy the cores. A third of the heartbeats is enough: a blocked thread sends at most one.
  expect(sent).toBeGreaterThan(STEP_SECONDS / HEARTBEAT_SECONDS / 3);
  await trainer.close();
  heartbeatStop.abort();
  expect(await beating).toBe("stopped");
});
