/** @file A quantized base: its codes, that sampler and trainer compute with the same weights, its memory, and what is refused. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { QWEN3_06B } from "../../bench/qwen3/model.ts";
import { memoryChecks } from "../../cli/local/model-needs.ts";
import { AgentConfig } from "../../core/contracts/agent-config.ts";
import type { CheckpointFiles, EngineOptions, PolicyEngine, TrainingSequence } from "../../core/ports.ts";
import { stream } from "../../core/random.ts";
import { ADAPTER_FILE, type Adapter, readAdapter } from "../../engine/checkpoint/adapter.ts";
import type { ModelConfig } from "../../engine/checkpoint/config.ts";
import { linearParameters, views } from "../../engine/checkpoint/parameters.ts";
import { toBfloat16 } from "../../engine/checkpoint/safetensors.ts";
import { MODEL_FILE } from "../../engine/checkpoint/tensors.ts";
import { parseCheckpoint, writeModel } from "../../engine/checkpoint/weights.ts";
import { compiledEngine } from "../../engine/compiled/engine.ts";
import { parameterTensors } from "../../engine/compiled/graphs/weights.ts";
import { planMemory } from "../../engine/compiled/memory.ts";
import { openWeights, storedWeights } from "../../engine/compiled/open-weights.ts";
import { type Bits, quantizeBlocks } from "../../engine/compiled/quantization/blocks.ts";
import { checkQuantization } from "../../engine/compiled/quantization/check.ts";
import { writeQuantizedBase } from "../../engine/compiled/quantization/quantized-base.ts";
import { openDecoder } from "../../engine/compiled/sampling/open-decoder.ts";
import { eagerEngine } from "../../engine/eager/engine.ts";
import { samplerContract } from "../contracts/sampler.ts";
import { trainerContract } from "../contracts/trainer.ts";
import { LORA, mappedAdapter, OPTIONS, tinyAdapter, tinyCheckpoint, WIDE } from "./tiny.ts";

const folder = mkdtempSync(join(tmpdir(), "mgrpo-quantization-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const files = mappedAdapter(WIDE, folder);
const optionsOf = (bits: Bits): EngineOptions => ({ ...OPTIONS, contextTokens: 90, quantization: `int${bits}` });
const KINDS: Bits[] = [4, 8];

/** The specification, in plain loops: the values that a row's blocks of 32 stand for. */
function reference(weights: Float32Array, bits: Bits): Float32Array {
  const values: number[] = [];
  for (let begin = 0; begin < weights.length; begin += 32) {
    const block = [...weights.subarray(begin, begin + 32)];
    const peak = block.reduce((most, weight) => (Math.abs(weight) > Math.abs(most) ? weight : most), 0);
    const scale = Math.fround(bits === 4 ? -peak / 8 : Math.abs(peak) / 127);
    const [lowest, highest] = bits === 4 ? [-8, 7] : [-127, 127];
    const level = (weight: number) => Math.max(lowest, Math.min(highest, Math.round(weight / scale))) + 0;
    values.push(...block.map((weight) => (scale === 0 ? 0 : scale * level(weight))));
  }
  return Float32Array.from(values);
}

/** An unquantized checkpoint with the same adapter, whose linear layers hold the reference's values. */
function dequantized(config: ModelConfig, bits: Bits): CheckpointFiles {
  const { layout, weights } = parseCheckpoint(tinyCheckpoint(config));
  const parts = views(layout, weights);
  for (const { name } of linearParameters(config)) {
    const part = parts.get(name) as Float32Array;
    part.set(reference(part, bits));
  }
  return new Map([...tinyAdapter(config), [MODEL_FILE, writeModel(layout, weights)]]);
}

describe("codes", () => {
  const { uniform } = stream("quantization");
  const weights = Float32Array.from({ length: 3 * 64 }, () => uniform() - 0.5);
  weights.fill(0, 32, 64);
  const decode = (bits: Bits, codes: Uint8Array, scales: Float32Array) =>
    Float32Array.from({ length: 32 * scales.length }, (_, i) => {
      const byte = codes[Math.floor((i * bits) / 8)] as number;
      const code = bits === 8 ? byte : i % 2 === 0 ? byte % 16 : Math.floor(byte / 16);
      return (scales[Math.floor(i / 32)] as number) * (code - (bits === 8 ? 128 : 8));
    });

  test.each(KINDS)(
    "int%i: codes decode to the values of the specification, within one step of the weights in 4 bits and half a step in 8",
    (bits) => {
      const { codes, scales } = quantizeBlocks(weights, bits);
      const values = decode(bits, codes, scales);
      expect(values).toEqual(reference(weights, bits));
      // A block's largest weight is exact up to rounding; in 4 bits, its opposite is a step away.
      const scaleOf = (i: number) => Math.abs(scales[Math.floor(i / 32)] as number);
      values.forEach((value, i) => {
        expect(Math.abs(value - (weights[i] as number))).toBeLessThanOrEqual((bits === 8 ? 0.501 : 1.001) * scaleOf(i));
      });
    },
  );

  test("a block has the codes and scales worked out by hand; the scale of a block with a NaN is NaN", () => {
    const block = new Float32Array(32);
    block.set([-4, 3.5, 1, -0.2]);
    // The peak is -4: scale -4 / -8 = 0.5; levels -8, 7, 2, round(-0.4) = 0; codes 0, 15, 10, 8, then 8 for each zero.
    expect([...quantizeBlocks(block, 4).codes.subarray(0, 3)]).toEqual([0xf0, 0x8a, 0x88]);
    expect([...quantizeBlocks(block, 4).scales]).toEqual([0.5]);
    // In 8 bits, scale 4 / 127; weight / scale: -127, 111.1, 31.75, -6.35.
    expect([...quantizeBlocks(block, 8).codes.subarray(0, 5)]).toEqual([1, 239, 160, 122, 128]);
    expect([...quantizeBlocks(block, 8).scales]).toEqual([Math.fround(4 / 127)]);
    for (const bits of KINDS) expect(quantizeBlocks(block.fill(Number.NaN, 3, 4), bits).scales[0]).toBeNaN();
  });

  // GGUF stores the scale d as float16; levels lie in these ranges. The block contains the lowest level.
  test.each([
    ["Q4_0", 4, -8, 7],
    ["Q8_0", 8, -127, 127],
  ] as const)("a base that was %s keeps its values", (_name, bits, lowest, highest) => {
    const d = 0.0123291015625;
    const levels = Array.from({ length: 32 }, (_, i) => (i === 5 ? lowest : lowest + ((7 * i) % (highest - lowest))));
    const values = Float32Array.from(levels, (level) => d * level);
    const { codes, scales } = quantizeBlocks(values, bits);
    expect(decode(bits, codes, scales)).toEqual(values);
  });
});

test.each(KINDS)("int%i: the same checkpoint gives the same file", (bits) => {
  const paths = ["a", "b"].map((name) => join(folder, `${name}${bits}`));
  const [a, b] = paths.map((path) => ({ ...writeQuantizedBase(files, bits, path), path: "" }));
  expect(a).toEqual(b);
  const [one, other] = paths.map((path) => readFileSync(path));
  expect(one?.equals(other as Buffer)).toBe(true);
});

const BATCH: TrainingSequence[] = [
  [3, 1, 4, 1, 5, 9, 2, 6],
  [5, 3, 5],
  [3, 1, 4, 8],
].map((tokens) => ({ tokens, weights_T: Float32Array.from(tokens, (_, t) => 0.1 * t) }));
const ADAM = { learningRate: 0.01, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0, maxGradientNorm: 1 };

async function trained(engine: PolicyEngine, checkpoint: CheckpointFiles, options: EngineOptions) {
  const trainer = await engine.openTrainer(checkpoint, options);
  const { logProbs } = await trainer.forwardBackward(BATCH, { kind: "linear" }, 0.8);
  await trainer.optimizerStep(ADAM);
  const saved = await trainer.save();
  await trainer.close();
  return { logProbs: logProbs.map((row) => [...row]), saved };
}

/** Decoders of a packed base, on two threads. */
function onTwoThreads(bits: Bits) {
  const quantized = writeQuantizedBase(files, bits, join(folder, `two-threads${bits}`));
  const packed = { packsWeights: true, quantized, multipliesCodes: true };
  const lane = { ...optionsOf(bits), ...packed, threads: 2, contextTokens: 200 };
  const { config, external, feeds } = openWeights(files, quantized);
  const adapter = readAdapter(files, config) as Adapter;
  const weights = {
    shape: { config, lora: adapter.lora },
    external,
    feeds: { ...feeds, ...parameterTensors(adapter.layout, adapter.weights) },
  };
  const decoderOf = async (slots: number) =>
    (await openDecoder(weights, slots, { ...lane, provider: "cpu" }, "step")).decoder;
  return { decoderOf, vocabulary: config.vocabulary };
}

const prompt = (slot: number, tokens: number) => ({
  slot,
  position: 0,
  tokens: Array.from({ length: tokens }, (_, t) => (1 + slot + 5 * t) % 30),
});

describe.each(KINDS)("int%i", (bits) => {
  const options = optionsOf(bits);
  const { quantization: _, ...plain } = options;

  test("the trainer computes with the dequantized weights: the same bits as on a float32 base that holds them", async () => {
    const quantized = await trained(compiledEngine, files, options);
    const onFloats = await trained(compiledEngine, dequantized(WIDE, bits), plain);
    expect(quantized).toEqual(onFloats);
    const original = await trained(compiledEngine, files, plain);
    expect(original.logProbs).not.toEqual(onFloats.logProbs);
  });

  test("the trainer's log-probs match those of the eager engine on the dequantized weights", async () => {
    const { logProbs } = await trained(compiledEngine, files, options);
    const oracle = await trained(eagerEngine, dequantized(WIDE, bits), plain);
    logProbs.forEach((row, i) => {
      row.forEach((logProb, t) => {
        expect(logProb).toBeCloseTo(oracle.logProbs[i]?.[t] ?? Number.NaN, 4);
      });
    });
  });

  test("only the adapter and its optimizer are saved, no quantized base", async () => {
    const { saved } = await trained(compiledEngine, files, options);
    expect([...saved.keys()]).toEqual([ADAPTER_FILE, "optimizer.safetensors"]);
  });

  // The sampler's contract compares its log-probs with a trainer's. With packed weights, a sampler rounds activations, so the tolerance is larger.
  describe.each([
    ["on", 0.03],
    ["off", 1e-4],
  ] as const)("sampler, weightPacking %s", (weightPacking, tolerance) => {
    samplerContract({ engine: compiledEngine, files, options: { ...options, weightPacking }, tolerance });
  });
  describe("trainer", () => {
    trainerContract({ engine: compiledEngine, files, options, trained: ADAPTER_FILE, memorizedLogProb: -1.3 });
  });

  // MatMulNBits gives each of two threads 128 rows, and computes 4 at a time.
  test("tokens have the same keys and values alone and beside others, and rows the same predictions in batches of any size", async () => {
    const { decoderOf, vocabulary } = onTwoThreads(bits);
    for (const tokens of [1, 5, 63, 129]) {
      const parked = await Promise.all(
        [[prompt(0, tokens)], [prompt(0, tokens), prompt(1, tokens + 1)]].map(async (chunks) => {
          const decoder = await decoderOf(2);
          await decoder.prefill(chunks);
          return decoder.cache.park(0, tokens);
        }),
      );
      expect(parked[0]).toEqual(parked[1]);
    }
    const predictions = async (count: number) => {
      const decoder = await decoderOf(count);
      for (let slot = 0; slot < count; slot++) decoder.place(slot, slot % 30, 0, 1);
      return (await decoder.decode(count)).slice(0, count * vocabulary);
    };
    const all = await predictions(130);
    for (const count of [1, 2, 3, 5, 129]) {
      expect(await predictions(count)).toEqual(all.subarray(0, count * vocabulary));
    }
  });
});

test("a base in bfloat16 is quantized to the same file as a float32 base with its values", async () => {
  const { layout, weights } = parseCheckpoint(tinyCheckpoint(WIDE));
  const halves = toBfloat16(weights);
  const rounded = new Float32Array(Uint32Array.from(halves, (half) => half << 16).buffer);
  const bases = [writeModel(layout, weights, "BF16"), writeModel(layout, rounded)];
  const [halfPrecision, float32] = bases.map((base) => new Map([...tinyAdapter(WIDE), [MODEL_FILE, base]]));
  const [a, b] = [halfPrecision, float32].map((checkpoint, i) => {
    const path = join(folder, `bfloat16-${i}`);
    writeQuantizedBase(checkpoint as CheckpointFiles, 4, path);
    return readFileSync(path);
  });
  expect(a?.equals(b as Buffer)).toBe(true);
});

describe("quantization is refused", () => {
  const open = (checkpoint: CheckpointFiles, changes: Partial<EngineOptions> = {}) =>
    compiledEngine.openTrainer(checkpoint, { ...optionsOf(4), ...changes });

  test.each<[string, CheckpointFiles, RegExp]>([
    ["all weights are trained", tinyCheckpoint(WIDE), /^engine\.quantization int4: only the base of an adapter is/],
    ["the base is in memory", tinyAdapter(WIDE), /^engine\.quantization int4: the base is not memory-mapped/],
  ])("where %s", async (_name, checkpoint, message) => {
    await expect(open(checkpoint)).rejects.toMatchObject({
      code: "config-invalid",
      message: expect.stringMatching(message),
    });
    await expect(compiledEngine.openSampler(checkpoint, optionsOf(4))).rejects.toThrow(message);
  });

  test("where a tensor's inputs are not a multiple of the block size, by an error that names it", async () => {
    const odd = mkdtempSync(join(folder, "odd-"));
    const message =
      "engine.quantization int4: 'model.layers.0.mlp.down_proj.weight' has 80 inputs, not a multiple of the block size, 32: remove the setting";
    await expect(open(mappedAdapter({ ...WIDE, ffnWidth: 80 }, odd))).rejects.toThrow(message);
  });

  test("on a GPU that the config names, but not with provider auto", () => {
    const check = (provider: "cuda" | "auto") =>
      checkQuantization(WIDE, LORA, { ...optionsOf(8), provider }, { mapped: true });
    expect(() => check("cuda")).toThrow(/int8: it runs on the CPU only, not on cuda: remove the setting/);
    expect(() => check("auto")).not.toThrow();
  });
});

test("the memory plan counts codes and scales in place of the linear layers, and a packed copy of the codes", () => {
  const [linear, head] = [28 * 1024 * (2048 + 2 * 1024 + 2048 + 3 * 3072), 151_936 * 1024];
  const [vectors, largest] = [28 * (2 * 1024 + 2 * 128) + 1024, 3072 * 1024];
  const stored = { mapped: true, bytes: 4 * (linear + head + vectors) };
  const plan = (quantization: "none" | "int4" | "int8", weightPacking: "on" | "off") =>
    planMemory(QWEN3_06B, LORA, { ...OPTIONS, quantization, weightPacking }, stored);
  // Two float32 copies of the largest linear layer (3072 x 1024: 98,304 blocks, one zero point each): the sampler's and the trainer's.
  const scales = linear / 8;
  const float32Bytes = 4 * (head + vectors) + 2 * 4 * largest;
  // Packed codes come with scales and as many sums. Trees: see memory.test.ts.
  expect(plan("int4", "on")).toEqual({
    ...plan("none", "on"),
    weights: float32Bytes + linear / 2 + scales + 98_304 / 2,
    packed: 4 * head + linear / 2 + 2 * scales,
    trees: plan("int8", "on").trees,
  });
  expect(plan("int8", "on")).toMatchObject({
    weights: float32Bytes + linear + scales + 98_304,
    packed: 4 * head + linear + 2 * scales,
  });
  expect(plan("int8", "off").packed).toBe(0);
});

test("doctor reports the quantization of the weights, and whether they are packed", () => {
  const agent = AgentConfig.parse({ model: "m", engine: { quantization: "int4", weightPacking: "on" } });
  const checks = memoryChecks(agent, files, storedWeights(files, WIDE));
  expect(checks.map(({ name, found }) => [name.trim(), found])).toEqual(
    expect.arrayContaining([
      ["weights", expect.stringMatching(/ GB, linear layers in int4$/)],
      ["packed", expect.stringMatching(/ GB, engine\.weightPacking on$/)],
    ]),
  );
});
