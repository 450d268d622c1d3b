/** @file Trained state in shards: the same weights and moments as in single files, whatever the shard size; what cannot be saved is refused. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { LoraConfig } from "../../core/contracts/lora.ts";
import { writeAdapterConfig } from "../../engine/checkpoint/adapter.ts";
import { readModelConfig, writeModelConfig } from "../../engine/checkpoint/config.ts";
import { layoutOf } from "../../engine/checkpoint/parameters.ts";
import { readHeader, writeSafetensors } from "../../engine/checkpoint/safetensors.ts";
import {
  planModelFiles,
  planOptimizerFiles,
  readOptimizer,
  refuseUnsavable,
  SHARD_BYTES,
  serializeFiles,
} from "../../engine/checkpoint/shards.ts";
import { INDEX_FILE, MODEL_FILE } from "../../engine/checkpoint/tensors.ts";
import { parseCheckpoint, writeModel } from "../../engine/checkpoint/weights.ts";
import { openTrainer, updated, withLora } from "../../engine/index.ts";
import { readSafetensors } from "./read-safetensors.ts";
import { OPTIONS, tinyCheckpoint } from "./tiny.ts";

const files = tinyCheckpoint();
const { layout, weights } = parseCheckpoint(files);
const bytes = 4 * layout.length;

test("weights within the limit are written as a single file", () => {
  const single = serializeFiles(planModelFiles(layout, weights));
  expect([...single]).toEqual([[MODEL_FILE, writeModel(layout, weights)]]);
  expect([...serializeFiles(planModelFiles(layout, weights, "F32", bytes))]).toEqual([...single]);
});

test("shards hold every tensor once, exceed the limit only with a single tensor, and read back bit for bit", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: bytes - 1 }), (limit) => {
      const shards = serializeFiles(planModelFiles(layout, weights, "F32", limit));
      const names = [...shards.keys()].filter((name) => name !== INDEX_FILE);
      const count = String(names.length).padStart(5, "0");
      expect(names).toEqual(names.map((_, i) => `model-${String(i + 1).padStart(5, "0")}-of-${count}.safetensors`));
      const tensorNames: string[] = [];
      for (const name of names) {
        const { tensors } = readHeader(shards.get(name) ?? expect.fail(), name);
        const size = [...tensors.values()].reduce((sum, { begin, end }) => sum + end - begin, 0);
        expect(tensors.size === 1 || size <= limit).toBe(true);
        tensorNames.push(...tensors.keys());
      }
      const index = JSON.parse(new TextDecoder().decode(shards.get(INDEX_FILE)));
      expect(index.metadata).toEqual({ total_size: bytes });
      expect(tensorNames.sort()).toEqual(layout.parameters.map(({ name }) => name).sort());
      expect(Object.keys(index.weight_map).sort()).toEqual(tensorNames);
      expect(parseCheckpoint(updated(files, shards)).weights).toEqual(weights);
    }),
    { numRuns: 30 },
  );
});

test("a tensor that is in two shards is read from the one that the index names", () => {
  const shards = serializeFiles(planModelFiles(layout, weights, "F32", 9000));
  const names = [...shards.keys()].filter((name) => name !== INDEX_FILE);
  const [first = "", last = ""] = [names[0], names.at(-1)];
  const tensorsOf = (name: string) => readSafetensors(shards.get(name) ?? expect.fail(), name).tensors;
  const [[name, { shape, values }] = expect.fail()] = tensorsOf(first);
  shards.set(last, writeSafetensors(new Map([...tensorsOf(last), [name, { shape, values: values.map(() => 7) }]])));
  expect(parseCheckpoint(updated(files, shards)).weights).toEqual(weights);
});

test("updated weights replace all files of the old ones: a single file after shards, shards after a single file", () => {
  const single = serializeFiles(planModelFiles(layout, weights));
  const shards = serializeFiles(planModelFiles(layout, weights, "F32", 9000));
  const others = [...files.keys()].filter((name) => name !== MODEL_FILE);
  const inShards = updated(files, shards);
  expect([...inShards.keys()].sort()).toEqual([...others, ...shards.keys()].sort());
  expect([...updated(inShards, single).keys()].sort()).toEqual([...others, MODEL_FILE].sort());
});

test("an updated adapter leaves the files of its base in place", () => {
  const adapter = new Map([["adapter_model.safetensors", new Uint8Array(8)]]);
  expect([...updated(files, adapter).keys()].sort()).toEqual([...files.keys(), ...adapter.keys()].sort());
});

test("updated optimizer state replaces all files of the old one, and no others", () => {
  const moments = (value: number) => ({ m: weights.map(() => value), v: weights.map(() => value), step: value });
  const single = serializeFiles(planOptimizerFiles(moments(1)));
  const shards = serializeFiles(planOptimizerFiles(moments(2), 9000));
  const inShards = updated(updated(files, single), shards);
  expect([...inShards.keys()].sort()).toEqual([...files.keys(), ...shards.keys()].sort());
  expect(readOptimizer(inShards, layout.length)).toEqual(moments(2));
  expect([...updated(inShards, single).keys()].sort()).toEqual([...files.keys(), ...single.keys()].sort());
});

/** More than the header of a file, or the index, takes. */
const HEADER_BYTES = 4096;

test("Adam's moments, cut to the shard size, read back bit for bit; those of a smaller model are refused", () => {
  const m = weights.map((value) => value / 2);
  const v = weights.map((value) => value ** 2);
  fc.assert(
    fc.property(fc.integer({ min: 4000, max: 2 * bytes + 1 }), (limit) => {
      const saved = serializeFiles(planOptimizerFiles({ m, v, step: 7 }, limit));
      expect(saved.size === 1).toBe(limit >= 2 * bytes);
      const largest = Math.max(...[...saved.values()].map(({ byteLength }) => byteLength));
      expect(largest).toBeLessThanOrEqual(limit + HEADER_BYTES);
      expect(readOptimizer(saved, layout.length)).toEqual({ m, v, step: 7 });
    }),
    { numRuns: 30 },
  );
  const saved = serializeFiles(planOptimizerFiles({ m, v, step: 7 }, bytes));
  expect(() => readOptimizer(saved, layout.length + 1)).toThrow(/not the state of this model/);
});

test("moments of a model with half as many parameters are refused, not read twice", () => {
  const half = { m: Float32Array.of(1, 2), v: Float32Array.of(3, 4), step: 7 };
  expect(() => readOptimizer(serializeFiles(planOptimizerFiles(half)), 4)).toThrow(/not the state of this model/);
});

test.each(["compiled", "eager"])("%s: training resumes from shards as from single files", async (policy) => {
  const batch = [{ tokens: [1, 2, 3, 4], weights_T: Float32Array.of(0, 1, 1, 1) }];
  const adam = { learningRate: 1e-2, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0, maxGradientNorm: 1 };
  const trainedBy = async (shardBytes: number) => {
    let current = updated(files, new Map());
    for (let step = 0; step < 2; step++) {
      const trainer = await openTrainer(current, { ...OPTIONS, policy, shardBytes });
      await trainer.forwardBackward(batch, { kind: "linear" }, 1);
      await trainer.optimizerStep(adam);
      current = updated(current, await trainer.save());
      await trainer.close();
    }
    return current;
  };
  const [whole, sharded] = [await trainedBy(SHARD_BYTES), await trainedBy(9000)];
  expect(sharded.has(MODEL_FILE)).toBe(false);
  expect(parseCheckpoint(sharded).weights).toEqual(parseCheckpoint(whole).weights);
  const trained = readOptimizer(sharded, layout.length);
  expect(trained).toEqual(readOptimizer(whole, layout.length));
  expect(trained.step).toBe(2);
});

test("weights too large to be saved or trained are refused with the reason", () => {
  expect(() =>
    refuseUnsavable(
      layoutOf([
        ["embedding", [152_000, 4096]],
        ["head", [152_000, 4096]],
      ]),
      null,
    ),
  ).not.toThrow();
  expect(() => refuseUnsavable(layoutOf([["embedding", [262_144, 5120]]]), null)).toThrow(
    /'embedding' has 1342177280 of them, more than fit into an array of 4 GiB: train an adapter/,
  );
  const many = Array.from({ length: 80 }, (_, i): [string, number[]] => [`layer ${i}`, [8192, 8192]]);
  expect(() => refuseUnsavable(layoutOf(many), null)).toThrow(/this engine cannot train all 5368709120 parameters/);
});

test("an adapter too large for its one file is refused before it is made or read", async () => {
  // A and B of one layer's q_proj: 2 * 32,768 * 8,192 parameters.
  const wide = { ...readModelConfig(files), layers: 1, width: 8192, heads: 64, headWidth: 128 };
  const lora: LoraConfig = { rank: 32_768, alpha: 64, targets: ["q_proj"] };
  const refused = {
    code: "engine-unsupported",
    message:
      "this engine cannot train an adapter of rank 32768 on q_proj: its 536870912 parameters do not fit into a file of 2 GiB: lower lora.rank, or name fewer lora.targets",
  };
  const base = new Map([["config.json", new TextEncoder().encode(writeModelConfig(wide, OPTIONS.contextTokens))]]);
  expect(() => withLora(base, "models/wide", [1], lora)).toThrow(expect.objectContaining(refused));
  const config = new TextEncoder().encode(writeAdapterConfig(lora, "models/wide"));
  const adapter = new Map([...base, ["adapter_config.json", config], ["adapter_model.safetensors", new Uint8Array()]]);
  await expect(openTrainer(adapter, { ...OPTIONS, policy: "eager" })).rejects.toMatchObject(refused);
});
