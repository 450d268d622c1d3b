/** @file The predicted memory: its parts, the settings that change each, and what doctor and preflight report. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { QWEN3_06B } from "../../bench/qwen3/model.ts";
import { Findings } from "../../cli/local/findings.ts";
import { checkModel } from "../../cli/local/model-checks.ts";
import { checkMemory } from "../../cli/local/model-needs.ts";
import { AgentConfig } from "../../core/contracts/agent-config.ts";
import { RunConfig } from "../../core/contracts/config.ts";
import type { EngineOptions } from "../../core/ports.ts";
import { parameterLayout } from "../../engine/checkpoint/parameters.ts";
import { computesWhole, mappedBytes, planMemory, totalBytes, totalOfProcesses } from "../../engine/compiled/memory.ts";
import { KvCache } from "../../engine/compiled/sampling/kv-cache.ts";
import { LORA, OPTIONS, TINY, tinyCheckpoint } from "./tiny.ts";

const options: EngineOptions = { threads: 2, slots: 8, contextTokens: 512, microBatchTokens: 2048 };
const stored = (bytesPerWeight: number) => ({ mapped: true, bytes: bytesPerWeight * 596_049_920 });
const plan = (changed: Partial<EngineOptions> = {}, rank = 16) =>
  planMemory(QWEN3_06B, { ...LORA, rank }, { ...options, ...changed }, stored(4));

test("the memory predicted for keys and values is what the cache allocates, including while it grows", () => {
  const cache = new KvCache(TINY, OPTIONS.slots, 100);
  cache.reserve(100);
  const arrays = Object.values(cache.firstSlots(OPTIONS.slots));
  const bytes = arrays.reduce((sum, { data }) => sum + (data as Float32Array).byteLength, 0);
  // All arrays have a cache width of 128; while the last one is widened, its narrower copy of width 64 also exists.
  const narrower = bytes / arrays.length / 2;
  expect(planMemory(TINY, LORA, { ...OPTIONS, contextTokens: 100 }, stored(4)).cache).toBe(bytes + narrower);
});

test("micro-batch size, prefix trees, slots and rank each change only their own parts", () => {
  const before = plan();
  const ofBatch = { activations: expect.any(Number), trees: expect.any(Number) };
  expect(plan({ microBatchTokens: 1024 })).toEqual({ ...before, ...ofBatch });
  expect(plan({ microBatchTokens: 1024 }).trees).toBeLessThan(before.trees * 0.8);
  expect(plan({ prefixTrees: false })).toEqual({ ...before, trees: 0 });
  expect(plan({ microBatchTokens: 1024 }).activations).toBeLessThan(before.activations * 0.8);
  expect(plan({ slots: 4 })).toEqual({ ...before, cache: before.cache / 2 });
  const { adapter, optimizer, saving } = before;
  expect(plan({}, 8)).toEqual({ ...before, adapter: adapter / 2, optimizer: optimizer / 2, saving: saving / 2 });
});

test("a mapped base needs its stored bytes, in half precision also two float32 matrices; full training needs over ten times the weights", () => {
  const weights = 4 * 596_049_920;
  const head = 4 * 151_936 * 1024;
  expect(plan().weights).toBe(weights);
  expect(totalBytes(plan())).toBeLessThan(3 * weights);
  const halfPrecision = (mapped: boolean) => planMemory(QWEN3_06B, LORA, options, { ...stored(2), mapped }).weights;
  // While a matrix is read it is float32, in the sampler and in the trainer; the largest is the head.
  expect(halfPrecision(true)).toBe(weights / 2 + 2 * head);
  // If the base is not mapped, each has a float32 copy: the trainer, a sampler, and the next version's sampler.
  expect(halfPrecision(false)).toBe(3 * weights);
  expect(totalBytes(planMemory(QWEN3_06B, null, options, stored(4)))).toBeGreaterThan(10 * weights);
});

test("with at most two lanes, the part `saving` has the next sampler's weights and the larger of two: a version's files in flight, or both moments", () => {
  const weights = 4 * 596_049_920;
  expect(planMemory(QWEN3_06B, null, options, stored(4)).saving).toBe(3 * weights);
  const small = parameterLayout(TINY).length;
  expect(planMemory(TINY, null, options, stored(4)).saving).toBe(4 * 4 * small);
  const between = { ...QWEN3_06B, layers: 1 };
  const bytes = 4 * parameterLayout(between).length;
  expect(bytes).toBeLessThan(2 ** 30);
  expect(planMemory(between, null, options, stored(4)).saving).toBe(4 * bytes);
});

test("a KL reference adds a copy of the trained weights; with a mapped base, it adds no weights", () => {
  const [full, withReference] = [false, true].map((reference) =>
    planMemory(QWEN3_06B, null, options, stored(4), { reference }),
  );
  expect(withReference).toEqual({ ...full, weights: ((full?.weights ?? 0) * 4) / 3 });
  const adapter = planMemory(QWEN3_06B, LORA, options, stored(4), { reference: true });
  expect(adapter.weights).toBe(plan().weights);
});

test("each step of staleness adds a sampler for one more version: its weights or adapter, and its cache", () => {
  const [now, stale] = [0, 1].map((staleness) => planMemory(QWEN3_06B, null, options, stored(4), { staleness }));
  expect(stale).toEqual({ ...now, weights: ((now?.weights ?? 0) * 4) / 3, cache: 2 * (now?.cache ?? 0) });
  const [one, three] = [0, 2].map((staleness) => planMemory(QWEN3_06B, LORA, options, stored(4), { staleness }));
  expect(three).toEqual({ ...one, cache: 3 * (one?.cache ?? 0), adapter: ((one?.adapter ?? 0) * 5) / 3 });
});

test("the part `saving` covers a gradient for each lane while prefix trees are checked; with few lanes, the files in flight are larger", () => {
  const bytes = 4 * parameterLayout(TINY).length;
  const saving = (threads: number, prefixTrees = true) =>
    planMemory(TINY, null, { ...options, threads, prefixTrees }, stored(4)).saving;
  expect([saving(2), saving(8), saving(8, false)]).toEqual([4 * bytes, 9 * bytes, 4 * bytes]);
});

test("a base that several processes map is in memory once; what each derives from it is not shared", () => {
  const weights = 4 * 596_049_920;
  const on = (files: string, quantization: "none" | "int8" = "none", bytesPerWeight = 4) => {
    const chosen = { ...options, quantization };
    const bytes = mappedBytes(QWEN3_06B, LORA, chosen, stored(bytesPerWeight));
    return { plan: planMemory(QWEN3_06B, LORA, chosen, stored(bytesPerWeight)), mapped: { files: [files], bytes } };
  };
  const one = on("base");
  const alone = totalBytes(one.plan);
  expect(one.mapped.bytes).toBe(weights);
  expect(totalOfProcesses([one])).toBe(alone);
  expect(totalOfProcesses([one, on("base"), on("base")])).toBe(3 * alone - 2 * weights);
  expect(totalOfProcesses([one, on("another")])).toBe(2 * alone);
  // Of a quantized base, the embedding and the norms are mapped; the codes are in a file of the process's own.
  const quantized = on("base", "int8");
  expect(quantized.mapped.bytes).toBeLessThan(weights / 3);
  expect(totalOfProcesses([quantized, one])).toBe(alone + totalBytes(quantized.plan) - quantized.mapped.bytes);
  // The float32 copies of half-precision matrices are not shared.
  const half = on("base", "none", 2);
  expect(half.mapped.bytes).toBe(weights / 2);
  expect(half.plan.weights).toBeGreaterThan(half.mapped.bytes);
  // Full training reads the weights into arrays.
  expect(mappedBytes(QWEN3_06B, null, options, stored(4))).toBe(0);
});

test("full training of a small model is one graph; that of a large one needs no more activations than adapter training", () => {
  expect(computesWhole(TINY, options)).toBe(true);
  expect(computesWhole(QWEN3_06B, options)).toBe(false);
  expect(planMemory(QWEN3_06B, null, options, stored(4)).activations).toBe(plan().activations);
});

test("prefix trees need masks, and arrays of their own where the runtime keeps a graph's arrays", () => {
  // [T, T] masks of 2048 x 512 scores in all, and their parts for 4 blocks of queries: 5/8 of them.
  const masks = 4 * 2048 * 512 * (1 + 5 / 8);
  expect(planMemory(QWEN3_06B, LORA, options, stored(2)).trees).toBe(masks);
  expect(plan({ quantization: "int8" }).trees).toBe(masks);
  // The arrays of one layer and of the head: all activations but the inputs of 28 layers and the last one's output.
  const inputs = 4 * 29 * 2048 * 1024;
  expect(plan().trees).toBe(masks + plan().activations - inputs);
  // A small model, in two lanes, keeps the arrays of all layers.
  const small = planMemory(TINY, null, options, stored(4));
  expect(small.trees).toBe(2 * masks + small.activations);
});

test("doctor --model reports the memory part by part; preflight warns if a team exceeds the free memory, and refuses one that exceeds the machine's", async () => {
  const folder = mkdtempSync(join(tmpdir(), "mgrpo-doctor-model-"));
  try {
    for (const [name, bytes] of tinyCheckpoint()) writeFileSync(join(folder, name), bytes);
    const parts = await checkModel(folder, ["lora.rank=4"]);
    expect(parts.map(({ name }) => name.trim())).toEqual([
      "model",
      "template",
      "program",
      "weights",
      "adapter",
      "optimizer",
      "activations",
      "kept",
      "trees",
      "cache",
      "saving",
      "memory",
    ]);
    expect(parts.at(-1)).toMatchObject({
      state: "ok",
      found: expect.stringMatching(/^about 0\.\d GB needed, .* available$/),
    });
    const crowded = (await checkModel(folder, ["engine.slots=100000000"])).at(-1);
    expect(crowded).toMatchObject({
      state: "broken",
      advice: expect.stringMatching(/the largest part is cache: a lower engine.slots/),
    });
    const agent = AgentConfig.parse({ model: folder, delegates: [] });
    const config = RunConfig.parse({ run: "r", recipe: "atlas", steps: 1, agents: { main: agent } });
    const bases = new Map([["main", tinyCheckpoint()]]);
    const found = (total: number, available: number) => {
      const findings = new Findings();
      checkMemory(config, bases, findings, { total, available });
      return findings.all;
    };
    const needs = /^agents.main.model: this team needs about 0\.\d GB of memory and /.source;
    expect(found(1e9, 1e9)).toEqual([]);
    expect(found(1e9, 1e8)).toEqual([
      {
        severity: "warning",
        message: expect.stringMatching(`${needs}0\\.1 GB is free; 'main' needs the most, .* part is program`),
      },
    ]);
    expect(found(1e8, 1e8)).toEqual([
      {
        severity: "error",
        message: expect.stringMatching(`${needs}the machine has 0\\.1 GB; 'main' needs the most`),
      },
    ]);
    await expect(checkModel(folder, ["lora.rang=4"])).rejects.toThrow(/--set.*rang/s);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
