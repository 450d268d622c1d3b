/** @file Trained state in shards: the same weights and moments as in single files, whatever the shard size; what cannot be saved is refused. */

import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { layoutOf } from "../../engine/checkpoint/parameters.ts";
import { readHeader } from "../../engine/checkpoint/safetensors.ts";
import {
  readOptimizer,
  refuseUnsavable,
  SHARD_BYTES,
  writeModelFiles,
  writeOptimizerFiles,
} from "../../engine/checkpoint/shards.ts";
import { INDEX_FILE, locateTensors, MODEL_FILE } from "../../engine/checkpoint/tensors.ts";
import { readCheckpoint, writeModel } from "../../engine/checkpoint/weights.ts";
import { sha256, sha256InChunks } from "../../engine/hash.ts";
import { openTrainer, updated } from "../../engine/index.ts";
import { OPTIMIZER, replaceFiles, weightsSha256 } from "../../gpu-workers/checkpoints.ts";
import { OPTIONS, tinyCheckpoint } from "./tiny.ts";

const files = tinyCheckpoint();
const { layout, weights } = readCheckpoint(files);
const bytes = 4 * layout.length;

test("what fits is one file, with the bytes of always", () => {
  const single = writeModelFiles(layout, weights);
  expect([...single]).toEqual([[MODEL_FILE, writeModel(layout, weights)]]);
  expect([...writeModelFiles(layout, weights, "F32", bytes)]).toEqual([...single]);
});

test("shards hold every tensor once, within the limit, and read back bit for bit", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: bytes - 1 }), (limit) => {
      const shards = writeModelFiles(layout, weights, "F32", limit);
      const names = [...shards.keys()].filter((name) => name !== INDEX_FILE);
      const count = String(names.length).padStart(5, "0");
      expect(names).toEqual(names.map((_, i) => `model-${String(i + 1).padStart(5, "0")}-of-${count}.safetensors`));
      for (const name of names) {
        const { tensors } = readHeader(shards.get(name) ?? expect.fail(), name);
        const size = [...tensors.values()].reduce((sum, { begin, end }) => sum + end - begin, 0);
        expect(tensors.size === 1 || size <= limit).toBe(true);
      }
      const index = JSON.parse(new TextDecoder().decode(shards.get(INDEX_FILE)));
      expect(index.metadata).toEqual({ total_size: bytes });
      expect([...locateTensors(shards).keys()].sort()).toEqual(layout.parameters.map(({ name }) => name).sort());
      expect(readCheckpoint(updated(files, shards)).weights).toEqual(weights);
    }),
    { numRuns: 30 },
  );
});

test("Adam's moments read back bit for bit from any pieces", () => {
  const m = weights.map((value) => value / 2);
  const v = weights.map((value) => value ** 2);
  fc.assert(
    fc.property(fc.integer({ min: 4000, max: 2 * bytes + 1 }), (limit) => {
      const saved = writeOptimizerFiles({ m, v, step: 7 }, limit);
      expect(saved.size === 1).toBe(limit >= 2 * bytes);
      expect(readOptimizer(saved, layout.length)).toEqual({ m, v, step: 7 });
    }),
    { numRuns: 30 },
  );
  const saved = writeOptimizerFiles({ m, v, step: 7 }, bytes);
  expect(() => readOptimizer(saved, layout.length + 1)).toThrow(/not the state of this model/);
});

test.each(["compiled", "eager"])("%s: training goes on from shards as from single files", async (policy) => {
  const batch = [{ tokens: [1, 2, 3, 4], weights_T: Float32Array.of(0, 1, 1, 1) }];
  const adam = { learningRate: 1e-2, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0, maxGradientNorm: 1 };
  const trainedBy = async (shardBytes: number) => {
    let now = updated(files, new Map());
    for (let step = 0; step < 2; step++) {
      const trainer = await openTrainer(now, { ...OPTIONS, policy, shardBytes });
      await trainer.forwardBackward(batch, { kind: "linear" }, 1);
      await trainer.optimizerStep(adam);
      now = updated(now, await trainer.save());
      await trainer.close();
    }
    return now;
  };
  const [whole, sharded] = [await trainedBy(SHARD_BYTES), await trainedBy(9000)];
  expect(sharded.has(MODEL_FILE)).toBe(false);
  expect(readCheckpoint(sharded).weights).toEqual(readCheckpoint(whole).weights);
  expect(readOptimizer(sharded, layout.length)).toEqual(readOptimizer(whole, layout.length));
});

test("a version in shards replaces a single file and its optimizer, and the other way round", () => {
  const part = (name: string) => ({ sha256: sha256(name), bytes: 1 });
  const parts = (...names: string[]) => Object.fromEntries(names.map((name) => [name, part(name)]));
  const single = parts("config.json", MODEL_FILE, OPTIMIZER);
  const shards = parts("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", INDEX_FILE);
  const moments = parts("optimizer-00001-of-00001.safetensors", "optimizer.safetensors.index.json");
  const sharded = replaceFiles(single, { ...shards, ...moments });
  expect(sharded).toEqual({ ...parts("config.json"), ...shards, ...moments });
  expect(weightsSha256(sharded)).toBe(weightsSha256(shards));
  expect(replaceFiles(sharded, parts(MODEL_FILE, OPTIMIZER))).toEqual(single);
});

test("a model whose weights no version could hold is refused with the reason", () => {
  expect(() =>
    refuseUnsavable(
      layoutOf([
        ["embedding", [152_000, 4096]],
        ["head", [152_000, 4096]],
      ]),
    ),
  ).not.toThrow();
  expect(() => refuseUnsavable(layoutOf([["embedding", [262_144, 5120]]]))).toThrow(
    /'embedding' has 1342177280 of them, more than fit into an array of 4 GiB: train an adapter/,
  );
  const many = Array.from({ length: 80 }, (_, i): [string, number[]] => [`layer ${i}`, [8192, 8192]]);
  expect(() => refuseUnsavable(layoutOf(many))).toThrow(/all 5368709120 parameters cannot be trained on this engine/);
});

test("a hash in chunks is that of the whole", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), fc.integer({ min: 1, max: 310 }), (given, chunk) => {
      expect(sha256InChunks(given, chunk)).toBe(createHash("sha256").update(given).digest("hex"));
    }),
  );
});
