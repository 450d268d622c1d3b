/** @file When weights are packed and for how many lanes, and that the batch does not affect the bits of packed products. */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as tf from "@tensorflow/tfjs-core";
import { afterAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { QWEN3_06B } from "../../bench/qwen3/model.ts";
import { withFreshAdapter } from "../../bench/qwen3/work.ts";
import type { CheckpointFiles, EngineOptions } from "../../core/ports.ts";
import { stream } from "../../core/random.ts";
import { toBfloat16 } from "../../engine/checkpoint/safetensors.ts";
import { compiledEngine } from "../../engine/compiled/engine.ts";
import { openGraphSession, tensor } from "../../engine/compiled/graph-session.ts";
import { planMemory, totalBytes } from "../../engine/compiled/memory.ts";
import type { ExternalTensor } from "../../engine/compiled/onnx/serialize.ts";
import { chooseSamplingLanes, resolveWeightPacking } from "../../engine/compiled/spare-memory.ts";
import { EngineThread } from "../../engine/compiled/thread.ts";
import { traceGraph } from "../../engine/compiled/trace/trace.ts";
import { samplerContract } from "../contracts/sampler.ts";
import { sparseModel } from "./sparse-model.ts";
import { LORA, mappedAdapter, OPTIONS, tinyAdapter, tinyCheckpoint, WIDE } from "./tiny.ts";

const folder = mkdtempSync(join(tmpdir(), "mgrpo-packing-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const MAPPED = { mapped: true, bytes: 4 * 596_049_920 };
const plan = (weightPacking: "on" | "off") => planMemory(QWEN3_06B, LORA, { ...OPTIONS, weightPacking }, MAPPED);

test.each([true, false])(
  "auto packs a base if the worker needs at most a quarter of the machine's memory, or three quarters of a dedicated machine's; the need includes prefix trees even if they are off (prefixTrees: %s)",
  (prefixTrees) => {
    const needed = totalBytes(plan("on"));
    const choice = (machine: number, more: Partial<EngineOptions> = {}) =>
      resolveWeightPacking(QWEN3_06B, LORA, { ...OPTIONS, prefixTrees, ...more }, MAPPED, machine);
    const off = { weightPacking: "off" } as const;
    expect([choice(4 * needed), choice(4 * needed - 4), choice(4 * needed, off)]).toEqual(["on", "off", "off"]);
    const dedicated = (machine: number) => choice(machine, { dedicated: true });
    expect([dedicated((4 / 3) * needed + 4), dedicated((4 / 3) * needed - 4)]).toEqual(["on", "off"]);
  },
);

test("the packed copy holds every matrix in float32; auto packs only a mapped base under an adapter on the CPU", () => {
  const vectors = 28 * (2 * 1024 + 2 * 128) + 1024;
  expect(plan("on")).toEqual({ ...plan("off"), packed: 4 * (596_049_920 - vectors) });
  const { weightPacking: _, ...options } = { ...OPTIONS, weightPacking: "auto" };
  const auto = (lora: typeof LORA | null, mapped: boolean, provider: "cpu" | "cuda" | "auto") =>
    resolveWeightPacking(QWEN3_06B, lora, { ...options, provider }, { ...MAPPED, mapped }, 1e12);
  expect(auto(LORA, true, "auto")).toBe("on");
  expect([auto(null, true, "cpu"), auto(LORA, false, "cpu"), auto(LORA, true, "cuda")]).toEqual(["off", "off", "off"]);
});

const PACKED = { ...OPTIONS, weightPacking: "on", gradientCheckpointing: "on", threads: 8, slots: 64 } as const;
const lanesOf = (changed: Partial<EngineOptions> = {}, machine = 1e12) =>
  chooseSamplingLanes(QWEN3_06B, LORA, { ...PACKED, ...changed }, MAPPED, machine);

test("a packed base is sampled in the most lanes that divide the threads evenly and have at least 16 slots each, or 4 with quantized weights", () => {
  expect([lanesOf(), lanesOf({ slots: 63 }), lanesOf({ slots: 16 })]).toEqual([4, 2, 1]);
  expect([lanesOf({ quantization: "int4" }), lanesOf({ quantization: "int8", slots: 16 })]).toEqual([8, 4]);
  expect([lanesOf({ threads: 3 }), lanesOf({ threads: 5 }), lanesOf({ weightPacking: "off" })]).toEqual([3, 1, 1]);
});

test("each lane has a packed copy and, for each of two samplers, an adapter; fewer lanes are used where they do not fit", () => {
  const needed = (samplingLanes: number) => planMemory(QWEN3_06B, LORA, { ...PACKED, samplingLanes }, MAPPED);
  const [one, two, four] = [needed(1), needed(2), needed(4)];
  expect(four).toEqual({ ...one, packed: 4 * one.packed, adapter: (9 * one.adapter) / 3 });
  const fits = totalBytes(two);
  expect([lanesOf({}, 4 * fits), lanesOf({}, 4 * fits - 4)]).toEqual([2, 1]);
});

test("a large packed base is sampled in several lanes and trained in one", async () => {
  const calls = vi.spyOn(EngineThread.prototype, "call").mockResolvedValue(undefined);
  onTestFinished(() => calls.mockRestore());
  const options = { ...OPTIONS, contextTokens: 64, threads: 2, slots: 32, weightPacking: "on" } as const;
  const large = { ...WIDE, width: 1024, ffnWidth: 12_000 };
  const files = withFreshAdapter(sparseModel(large, join(folder, "large")), large, LORA);
  await compiledEngine.openSampler(files, options);
  await compiledEngine.openTrainer(files, options);
  const opened = (method: string, threads: number, slots: number) =>
    expect.objectContaining({ method, options: expect.objectContaining({ packsWeights: true, threads, slots }) });
  expect(calls.mock.calls.map(([, call]) => call)).toEqual([
    opened("openSampler", 1, 16),
    opened("openSampler", 1, 16),
    opened("openTrainer", 2, 32),
  ]);
  expect(new Set(calls.mock.contexts).size).toBe(3);
});

test.each<[string, CheckpointFiles, RegExp]>([
  [
    "all weights are trained",
    tinyCheckpoint(),
    /engine\.weightPacking on: only a frozen base is packed.*remove the setting$/,
  ],
  ["the base is in memory", tinyAdapter(), /engine\.weightPacking on: the base is not memory-mapped/],
])("weight packing is refused if %s", async (_name, files, message) => {
  await expect(compiledEngine.openSampler(files, { ...OPTIONS, weightPacking: "on" })).rejects.toThrow(message);
});

test.each([
  ["float32", 600],
  ["bfloat16", 600],
] as const)("a row of a matrix product with packed %s weights has the same bits in any batch", async (type, width) => {
  const columns = 70;
  const { uniform } = stream("packing");
  const random = (length: number) => Float32Array.from({ length }, () => uniform() - 0.5);
  const weights = random(columns * width);
  const stored = type === "float32" ? weights : toBfloat16(weights);
  const path = join(folder, type);
  writeFileSync(path, new Uint8Array(stored.buffer));
  const external: ExternalTensor = { type, path, offset: 0, bytes: stored.byteLength, dims: [columns, width] };
  const traced = traceGraph("product", (scope) => {
    const [x, w] = [scope.input<tf.Tensor2D>("x", [10007, width]), scope.input<tf.Tensor2D>("w", [columns, width])];
    scope.output("y", tf.matMul(x, w, false, true));
  });
  const options = { threads: 1, provider: "cpu", packsWeights: true } as const;
  const session = await openGraphSession(traced, options, new Map([["w", external]]));
  const [row, others] = [random(width), random(40 * width)];
  const products = await Promise.all(
    Array.from({ length: 40 }, async (_, i) => {
      const rows = new Float32Array((i + 2) * width);
      rows.set(others.subarray(0, (i + 1) * width));
      rows.set(row, (i + 1) * width);
      const { y } = await session.run({ batch: i + 2 }, { x: tensor(rows, [i + 2, width]) });
      return y?.slice((i + 1) * columns);
    }),
  );
  expect(products[0]).toHaveLength(columns);
  for (const product of products) expect(product).toEqual(products[0]);
});

describe("a sampler with packed weights", () => {
  const files = mappedAdapter(WIDE, folder);
  samplerContract({ engine: compiledEngine, files, options: { ...OPTIONS, contextTokens: 90, weightPacking: "on" } });
});
