/** @file A version whose weights and moments are in shards is published, loaded by the next trainer, and sampled. */
import { expect, test } from "vitest";
import type { Manifest } from "../../core/contracts/checkpoint.ts";
import { objectKeys } from "../../core/contracts/keys.ts";
import type { PolicyEngine } from "../../core/ports.ts";
import { OPTIMIZER_FILE, readOptimizer } from "../../engine/checkpoint/shards.ts";
import { indexFileOf, MODEL_FILE } from "../../engine/checkpoint/tensors.ts";
import { parseCheckpoint } from "../../engine/checkpoint/weights.ts";
import { eagerEngine } from "../../engine/eager/engine.ts";
import { createBusyMeter } from "../../gpu-workers/busy.ts";
import { openCheckpoints, replaceFiles } from "../../gpu-workers/checkpoints.ts";
import { createLog } from "../../gpu-workers/log.ts";
import type { RunContext } from "../../gpu-workers/run-context.ts";
import { TrainerState } from "../../gpu-workers/training/trainer-state.ts";
import { tinyCheckpoint } from "../engine/tiny.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { relayConfig } from "../fixtures/relay/start.ts";

const SHARD_BYTES = 5000;
const config = relayConfig();
const batch = [{ tokens: [1, 2, 3, 4], weights_T: Float32Array.of(0, 1, 1, 1) }];
const adam = { learningRate: 1e-2, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0, maxGradientNorm: 1 };

async function trainTwice(shardBytes: number) {
  const engine: PolicyEngine = {
    ...eagerEngine,
    openTrainer: (files, options) => eagerEngine.openTrainer(files, { ...options, contextTokens: 100, shardBytes }),
  };
  const store = memoryStore();
  const log = createLog(() => {});
  // What a trainer needs from its run.
  const run = { name: config.run, config, store, log } as unknown as RunContext;
  const versionOf = (version: number, files: Manifest["files"]): Manifest => {
    return { run: run.name, agent: "main", version, trained: true, files, stats: null, seconds: null };
  };
  const initial = openCheckpoints(run.name, store);
  const base: Manifest["files"] = {};
  for (const [name, bytes] of tinyCheckpoint()) {
    base[name] = await initial.register("main", name, bytes);
    await initial.store(base[name], bytes);
  }
  let manifest = versionOf(0, base);
  for (const version of [1, 2]) {
    // As in a new process: nothing is in memory.
    const checkpoints = openCheckpoints(run.name, store);
    const trainer = new TrainerState({
      run,
      agent: "main",
      engine,
      checkpoints,
      worker: "w",
      meter: createBusyMeter(),
    });
    await trainer.use(manifest, async (opened) => {
      await opened.forwardBackward(batch, { kind: "linear" }, 1);
      await opened.optimizerStep(adam);
      return { trained: true };
    });
    manifest = versionOf(version, replaceFiles(manifest.files, await trainer.save()));
    await checkpoints.publish(manifest);
    await trainer.close();
  }
  return { store, manifest, files: await openCheckpoints(run.name, store).files(manifest, "all") };
}

test("two steps through shards give the same weights and moments as two steps through single files, and the last version can be sampled", async () => {
  const [whole, sharded] = [await trainTwice(2 ** 30), await trainTwice(SHARD_BYTES)];
  for (const file of [MODEL_FILE, OPTIMIZER_FILE]) {
    expect(Object.keys(whole.manifest.files)).toContain(file);
    expect(Object.keys(sharded.manifest.files)).not.toContain(file);
    expect(Object.keys(sharded.manifest.files)).toContain(indexFileOf(file));
  }
  const { weights } = parseCheckpoint(sharded.files);
  expect(weights).toEqual(parseCheckpoint(whole.files).weights);
  const moments = readOptimizer(sharded.files, weights.length);
  expect(moments).toEqual(readOptimizer(whole.files, weights.length));
  expect(moments.step).toBe(2);
  for (const { sha256, bytes } of Object.values(sharded.manifest.files))
    expect(await sharded.store.objects.head(objectKeys.part(config.run, sha256))).toBe(bytes);
  const inference = await openCheckpoints(config.run, sharded.store).files(sharded.manifest, "inference");
  expect([...inference.keys()].filter((name) => name.startsWith("optimizer"))).toEqual([]);
  const sampler = await eagerEngine.openSampler(inference, {
    threads: 1,
    slots: 1,
    contextTokens: 50,
    microBatchTokens: 50,
  });
  const sampling = { temperature: 1, topP: 1, topK: 0 };
  const { tokens } = await sampler.sample({
    sequence: "s",
    tokens: [1],
    maxTokens: 3,
    stop: [],
    sampling,
    stream: ["s"],
  });
  expect(tokens).toHaveLength(3);
  await sampler.close();
});
