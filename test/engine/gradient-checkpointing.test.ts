/** @file Gradient checkpointing: kept activations give the same bits as recomputed ones; and when they are kept. */
import { expect, test } from "vitest";
import { QWEN3_06B } from "../../bench/qwen3/model.ts";
import type { EngineOptions, TrainingSequence } from "../../core/ports.ts";
import { compiledEngine } from "../../engine/compiled/engine.ts";
import { traceBackward } from "../../engine/compiled/graphs/layered.ts";
import { computesWhole, planMemory, totalBytes } from "../../engine/compiled/memory.ts";
import { resolveGradientCheckpointing } from "../../engine/compiled/spare-memory.ts";
import { branchingRollouts } from "../fixtures/branching-rollouts.ts";
import { takeGradient } from "./take-gradient.ts";
import { BIASED, LAYERED, LORA, OPTIONS, TINY, tinyAdapter, tinyCheckpoint } from "./tiny.ts";

/** The results of one pass, and its gradient. */
async function passOf(files: Map<string, Uint8Array>, batch: TrainingSequence[], options: EngineOptions) {
  const trainer = await compiledEngine.openTrainer(files, options);
  const pass = await trainer.forwardBackward(batch, { kind: "clipped-token", clipLow: 0.2, clipHigh: 0.28 }, 0.9);
  return { ...pass, gradient: await takeGradient(trainer) };
}

test.each<[string, Map<string, Uint8Array>, Partial<EngineOptions>]>([
  ["an adapter", tinyAdapter(TINY, LORA, 3), { prefixTrees: false }],
  ["an adapter, in trees", tinyAdapter(TINY, LORA, 3), {}],
  ["an adapter on biased projections, two lanes", tinyAdapter(BIASED, LORA, 3), { threads: 2, prefixTrees: false }],
  ["all weights, layer by layer", tinyCheckpoint(TINY, 3), { ...LAYERED, prefixTrees: false }],
])("checkpointing changes no bits of the loss, log-probs or gradient: %s", async (_name, files, more) => {
  const batch = branchingRollouts(TINY.vocabulary);
  const options = { ...OPTIONS, ...more };
  const kept = await passOf(files, batch, { ...options, gradientCheckpointing: "off" });
  const recomputed = await passOf(files, batch, { ...options, gradientCheckpointing: "on" });
  expect(kept.gradient.some((value) => value !== 0)).toBe(true);
  expect(kept).toEqual(recomputed);
});

test("with kept activations, the backward pass leaves out the forward products with the weights and with each adapter's B", () => {
  const products = (keeps: boolean) =>
    traceBackward("sequences", keeps)({ config: TINY, lora: LORA }).graph.nodes.filter(({ op }) => op === "FusedMatMul")
      .length;
  // Of q, k, v, o, gate and up in each of 2 layers: the product with the weight, and the adapter's with B.
  expect(products(false) - products(true)).toBe(2 * 6 * 2);
});

test("on the CPU, auto keeps activations if a worker on a shared machine would then need at most a quarter of its memory; the need includes prefix trees even if they are off", () => {
  const stored = { mapped: true, bytes: 4 * 596_049_920 };
  const options = { ...OPTIONS, weightPacking: "off" } as const;
  const plan = (gradientCheckpointing: "on" | "off") =>
    planMemory(QWEN3_06B, LORA, { ...options, gradientCheckpointing }, stored);
  // Per token and layer: queries of 2048, keys and values of 1024, the output's 1024, gate and up of 3072.
  const floats = 28 * (2048 + 2 * 1024 + 1024 + 2 * 3072);
  expect(plan("off")).toEqual({ ...plan("on"), kept: 4 * OPTIONS.contextTokens * floats });
  const needed = totalBytes(plan("off"));
  const choice = (machine: number, more: Partial<EngineOptions> = {}) =>
    resolveGradientCheckpointing(QWEN3_06B, LORA, { ...options, ...more }, stored, machine);
  expect([choice(4 * needed), choice(4 * needed - 4)]).toEqual(["off", "on"]);
  expect(choice(4 * needed - 4, { prefixTrees: false })).toBe("on");
  expect(choice(4 * needed, { gradientCheckpointing: "on" })).toBe("on");
  expect(choice(1e12, { provider: "cuda" })).toBe("on");
});

test("with auto, all weights of a small model are trained in one graph on every provider; with checkpointing on, layer by layer", () => {
  const inOneGraph = (gradientCheckpointing: "auto" | "on", provider: "cpu" | "webgpu" | "cuda" = "cpu") => {
    const options = { ...OPTIONS, gradientCheckpointing, provider };
    const resolved = resolveGradientCheckpointing(TINY, null, options, { mapped: true, bytes: 1 });
    return computesWhole(TINY, { ...options, gradientCheckpointing: resolved });
  };
  const found = [inOneGraph("auto"), inOneGraph("auto", "webgpu"), inOneGraph("auto", "cuda"), inOneGraph("on")];
  expect(found).toEqual([true, true, true, false]);
});
