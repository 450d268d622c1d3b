/** @file A version is published file by file: the memory that this takes depends on the size of a shard, not on that of the model. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import type { Manifest } from "../../core/contracts/checkpoint.ts";
import type { ObjectStore, PolicyEngine } from "../../core/ports.ts";
import { compiledEngine } from "../../engine/compiled/engine.ts";
import { eagerEngine } from "../../engine/eager/engine.ts";
import { createBusyMeter } from "../../gpu-workers/busy.ts";
import { openCheckpoints } from "../../gpu-workers/checkpoints.ts";
import { createLog } from "../../gpu-workers/log.ts";
import type { RunContext } from "../../gpu-workers/run-context.ts";
import { TrainerState } from "../../gpu-workers/training/trainer-state.ts";
import { TINY, tinyCheckpoint } from "../engine/tiny.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { relayConfig } from "../fixtures/relay/start.ts";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

const SHARD_BYTES = 2e6;
/** Two layers of 0.9 million parameters each: 7 MB of weights, 14 MB of moments. */
const CONFIG = { ...TINY, width: 256, ffnWidth: 1000, headWidth: 32, queryKeyNorm: false };

/** Measures, at each commit, the bytes of all ArrayBuffers, and of the committed bodies that are still in memory. Stores nothing. */
function meteredObjects() {
  const inUse: number[] = [];
  const alive: number[] = [];
  const sizes: number[] = [];
  const bodies: WeakRef<Uint8Array>[] = [];
  const objects: ObjectStore = {
    ...memoryStore().objects,
    async commit(_key, body) {
      await new Promise((resolve) => setImmediate(resolve));
      collectGarbage();
      inUse.push(process.memoryUsage().arrayBuffers);
      bodies.push(new WeakRef(body));
      alive.push(bodies.reduce((sum, one) => sum + (one.deref()?.length ?? 0), 0));
      sizes.push(body.length);
      return true;
    },
  };
  return { objects, inUse, alive, sizes };
}

test.each<[string, PolicyEngine]>([
  ["compiled", compiledEngine],
  ["eager", eagerEngine],
])("%s: publishing a version of 21 MB takes less memory than three of its largest files", async (_name, opened) => {
  const engine: PolicyEngine = {
    ...opened,
    openTrainer: (files, options) =>
      opened.openTrainer(files, { ...options, contextTokens: 100, shardBytes: SHARD_BYTES }),
  };
  const { objects, inUse, alive, sizes } = meteredObjects();
  const config = relayConfig();
  // The parts of a run that a trainer needs.
  const run = { name: config.run, config, store: { ...memoryStore(), objects }, log: createLog(() => {}) };
  const checkpoints = openCheckpoints(config.run, run.store);
  const files: Manifest["files"] = {};
  for (const [name, bytes] of tinyCheckpoint(CONFIG)) files[name] = await checkpoints.register("main", name, bytes);
  const manifest = { run: config.run, agent: "main", version: 0, trained: true, files, stats: null, seconds: null };
  const trainer = new TrainerState({
    run: run as unknown as RunContext,
    ...{ agent: "main", engine, checkpoints, worker: "w", meter: createBusyMeter() },
  });
  await trainer.use(manifest, async () => ({ trained: true }));
  collectGarbage();
  const before = process.memoryUsage().arrayBuffers;
  const saved = await trainer.save();
  const [bytes, count] = [sizes.reduce((sum, size) => sum + size, 0), Object.keys(saved).length];
  expect(bytes).toBeGreaterThan(20e6);
  expect(Math.max(...sizes)).toBeLessThan(2 * SHARD_BYTES);
  expect(Math.max(...alive)).toBeLessThan(3 * Math.max(...sizes));
  // Headers and hashes take some kilobytes.
  expect(Math.max(...inUse) - before).toBeLessThan(3 * Math.max(...sizes) + 100_000);
  expect(count).toBe(sizes.length);
  await trainer.close();
});
