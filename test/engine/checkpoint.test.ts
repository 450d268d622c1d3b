/** @file Checkpoints: a round trip keeps every bit; F32, F16 and BF16 are read; damaged and unsupported files are refused, with the reason. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { CheckpointFile, CheckpointFiles } from "../../core/ports.ts";
import { checkContext, type ModelConfig, parseModelConfig, writeModelConfig } from "../../engine/checkpoint/config.ts";
import { initializeWeights } from "../../engine/checkpoint/initialize.ts";
import { writeSafetensors } from "../../engine/checkpoint/safetensors.ts";
import { readOptimizer } from "../../engine/checkpoint/shards.ts";
import { INDEX_FILE, MODEL_FILE } from "../../engine/checkpoint/tensors.ts";
import { parseCheckpoint, writeModel } from "../../engine/checkpoint/weights.ts";
import { checkpointFiles, checkpointPath, localFiles } from "../fixtures/checkpoints.ts";
import { readSafetensors } from "./read-safetensors.ts";
import { TINY, tinyCheckpoint } from "./tiny.ts";

/** The tiny checkpoint with one file added or replaced. */
const withFile = (name: string, bytes: Uint8Array): CheckpointFiles => new Map([...tinyCheckpoint(), [name, bytes]]);
const text = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

/** A safetensors file with this header and these bytes, which need not match. */
function raw(header: object, data: Uint8Array): Uint8Array {
  const json = text(header);
  const bytes = new Uint8Array(8 + json.length + data.length);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(json.length), true);
  bytes.set(json, 8);
  bytes.set(data, 8 + json.length);
  return bytes;
}

/** A copy of a file, with NaN as its last number. */
function endingInNaN(bytes: Uint8Array): Uint8Array {
  const copy = bytes.slice();
  new DataView(copy.buffer).setUint32(copy.length - 4, 0x7fc00000, true);
  return copy;
}

const f32 = (begin: number, end: number) => ({ dtype: "F32", shape: [(end - begin) / 4], data_offsets: [begin, end] });

describe("safetensors", () => {
  test("a round trip keeps every bit, and equal tensors give equal bytes", () => {
    const values = fc.float32Array({ minLength: 0, maxLength: 20 });
    const names = fc.string({ minLength: 1 }).filter((name) => name !== "__metadata__" && name !== "__proto__");
    fc.assert(
      fc.property(fc.dictionary(names, values, { maxKeys: 5 }), (record) => {
        const entries = Object.entries(record).map(([name, v]) => [name, { shape: [v.length], values: v }] as const);
        const bytes = writeSafetensors(new Map(entries), { format: "pt" });
        const read = readSafetensors(bytes, "x");
        expect([...read.tensors]).toEqual(entries);
        expect(read.metadata).toEqual({ format: "pt" });
        expect(writeSafetensors(read.tensors, read.metadata)).toEqual(bytes);
        expect((new DataView(bytes.buffer).getBigUint64(0, true) % 8n).toString()).toBe("0");
      }),
    );
  });

  test("bfloat16 and float16 become float32", () => {
    // bf16 0x3FC0 = 1.5, 0xC000 = -2; f16 0x3E00 = 1.5, 0x0001 = 2^-24, 0xFC00 = -Infinity
    const data = Uint8Array.of(0xc0, 0x3f, 0x00, 0xc0, 0x00, 0x3e, 0x01, 0x00, 0x00, 0xfc);
    const header = {
      b: { dtype: "BF16", shape: [2], data_offsets: [0, 4] },
      h: { dtype: "F16", shape: [3], data_offsets: [4, 10] },
    };
    const { tensors } = readSafetensors(raw(header, data), "x");
    expect([...(tensors.get("b")?.values ?? [])]).toEqual([1.5, -2]);
    expect([...(tensors.get("h")?.values ?? [])]).toEqual([1.5, 2 ** -24, Number.NEGATIVE_INFINITY]);
  });

  test("float32 is written as the nearest bfloat16, ties to even; NaN stays NaN", () => {
    // At 1, the last place of bf16 is 2^-7. The last value is a NaN whose fraction is set only where bf16 has no bits.
    const values = Float32Array.of(1 + 2 ** -8, 1 + 3 * 2 ** -8, 1 + 2 ** -8 + 2 ** -20, -1 - 3 * 2 ** -8, 0);
    new Uint32Array(values.buffer)[4] = 0x7f800001;
    const bytes = writeSafetensors(new Map([["a", { shape: [5], values }]]), {}, "BF16");
    const written = readSafetensors(bytes, "x").tensors.get("a")?.values ?? [];
    expect([...written]).toEqual([1, 1 + 2 ** -6, 1 + 2 ** -7, -1 - 2 ** -6, Number.NaN]);
  });

  test.each<[string, Uint8Array, RegExp]>([
    ["an empty file", new Uint8Array(), /m: 0 bytes are not a safetensors file/],
    ["a truncated header", raw({ a: 1 }, new Uint8Array()).subarray(0, 10), /m: cut off inside the header/],
    ["a header that is not JSON", Uint8Array.of(2, 0, 0, 0, 0, 0, 0, 0, 0x7b, 0x7b), /m: header: not JSON/],
    ["a malformed entry", raw({ a: { dtype: "F32" } }, new Uint8Array()), /header entry of 'a' is malformed/],
    [
      "truncated data",
      raw({ a: { dtype: "F32", shape: [2], data_offsets: [0, 8] } }, new Uint8Array(4)),
      /cut off inside 'a'/,
    ],
    [
      "a size that does not fit the shape",
      raw({ a: { dtype: "F32", shape: [3], data_offsets: [0, 8] } }, new Uint8Array(8)),
      /'a' has 8 bytes for shape \[3\]/,
    ],
    ["an oversized header", Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 1), /m: a header of 7\d{16} bytes is too long/],
    ["overlapping tensors", raw({ a: f32(0, 8), b: f32(4, 12) }, new Uint8Array(12)), /m: 'b' overlaps 'a'/],
    ["a negative offset", raw({ a: f32(-4, 4) }, new Uint8Array(4)), /'a' is malformed/],
    ["a gap", raw({ a: f32(0, 8), b: f32(12, 20) }, new Uint8Array(20)), /m: 4 bytes before 'b' belong to no tensor/],
    ["trailing bytes", raw({ a: f32(0, 8) }, new Uint8Array(9)), /m: 1 bytes after 'a' belong to no tensor/],
    [
      "an unsupported dtype",
      raw({ a: { dtype: "I8", shape: [1], data_offsets: [0, 1] } }, new Uint8Array(1)),
      /'a' is I8/,
    ],
  ])("is refused with the reason: %s", (_name, bytes, message) => {
    expect(() => readSafetensors(bytes, "m")).toThrow(message);
  });
});

const VALID = JSON.parse(writeModelConfig(TINY, 512)) as Record<string, unknown>;
const LLAMA3 = { factor: 8, low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 8192 };
const SCALED = { factor: 8, lowFrequencyFactor: 1, highFrequencyFactor: 4, originalContext: 8192 };

describe("config.json", () => {
  test.each<[string, ModelConfig]>([
    ["Qwen3", TINY],
    ["Qwen2", { ...TINY, queryKeyNorm: false, projectionBias: true, tied: false }],
    ["Llama", { ...TINY, epsilon: 1e-5, ropeTheta: 5e5, queryKeyNorm: false, ropeScaling: SCALED }],
  ])("written configs are read back: %s", (_family, config) => {
    expect(parseModelConfig(writeModelConfig(config, 512))).toEqual(config);
  });

  test("both formats of rotary positions are read (transformers 4 and 5), and keys with defaults may be missing", () => {
    const { rope_theta, head_dim, num_key_value_heads, architectures, ...rest } = VALID;
    const llama = { ...rest, hidden_size: 24, model_type: "llama", architectures: null };
    const four = { ...llama, rope_theta: 5e5, rope_scaling: { type: "llama3", ...LLAMA3 } };
    const five = { ...llama, rope_parameters: { rope_type: "llama3", rope_theta: 5e5, ...LLAMA3 } };
    const read = parseModelConfig(text(four));
    expect(parseModelConfig(text(five))).toEqual(read);
    expect(read).toMatchObject({ ropeTheta: 5e5, ropeScaling: SCALED, headWidth: 6, kvHeads: 4 });
  });
});

describe("an unsupported config.json", () => {
  test.each<[Record<string, unknown>, RegExp]>([
    [
      { architectures: ["GemmaForCausalLM"] },
      /architectures = \["GemmaForCausalLM"\] is not supported.*Qwen3ForCausalLM/,
    ],
    // GPT-2 has other names for its sizes.
    [
      { architectures: ["GPT2LMHeadModel"], n_embd: 768, hidden_size: undefined },
      /architectures = \["GPT2LMHeadModel"\] is not supported/,
    ],
    [{ architectures: null, model_type: "phi3" }, /model_type = "phi3" is not supported.*mistral/],
    [{ rope_scaling: { type: "yarn" } }, /rope_scaling.rope_type = "yarn"/],
    [{ rope_parameters: { rope_type: "dynamic" } }, /rope_parameters.rope_type = "dynamic"/],
    [{ rope_scaling: { ...LLAMA3, rope_type: "llama3", factor: undefined } }, /rope_scaling.factor = null/],
    [{ partial_rotary_factor: 0.5 }, /partial_rotary_factor = 0.5/],
    [{ hidden_act: "gelu" }, /hidden_act = "gelu"/],
    [{ attention_bias: true }, /attention_bias/],
    [{ mlp_bias: true }, /mlp_bias/],
    [{ layer_types: ["linear_attention"] }, /layer_types = "linear_attention"/],
    [{ quantization_config: { bits: 4 } }, /quantization_config = {"bits":4}/],
    [{ head_dim: 5 }, /head_dim = 5/],
    [{ num_key_value_heads: 3 }, /num_key_value_heads = 3/],
    [{ hidden_size: "wide" }, /config.json: hidden_size/],
  ])("is refused, and the message names the key: %o", (change, message) => {
    expect(() => parseModelConfig(text({ ...VALID, ...change }))).toThrow(message);
  });
});

describe("the context limit of config.json", () => {
  test.each<[string, Record<string, unknown>, RegExp | undefined]>([
    [
      "beyond the model's positions",
      { max_position_embeddings: 512 },
      /max_position_embeddings = 512 is less than limits.contextTokens = 600/,
    ],
    [
      "Mistral's window",
      { architectures: ["MistralForCausalLM"], sliding_window: 599 },
      /sliding_window = 599 is less/,
    ],
    ["Mistral without a window", { architectures: ["MistralForCausalLM"], sliding_window: null }, undefined],
    ["Qwen's window, unused", { use_sliding_window: false, sliding_window: 16 }, undefined],
    [
      "Qwen's window",
      { use_sliding_window: true, sliding_window: 16, max_window_layers: 1 },
      /sliding_window = 16 is less/,
    ],
    ["Qwen's window, by default only from layer 28 on", { use_sliding_window: true, sliding_window: 16 }, undefined],
    [
      "Qwen's window, used by no layer",
      { use_sliding_window: true, sliding_window: 16, max_window_layers: 2 },
      undefined,
    ],
    [
      "Qwen's window, used by one layer",
      { use_sliding_window: true, sliding_window: 16, layer_types: ["full_attention", "sliding_attention"] },
      /sliding_window = 16 is less/,
    ],
    ["Llama has no window", { architectures: ["LlamaForCausalLM"], sliding_window: 16 }, undefined],
  ])("a context of 600 is refused only if it exceeds the limit: %s", (_name, change, message) => {
    const files = withFile("config.json", text({ ...VALID, max_position_embeddings: 4096, ...change }));
    const check = () => checkContext(files, 600);
    if (message) expect(check).toThrow(message);
    else check();
  });

  test("Mistral's window is 4096 tokens if config.json does not set it", () => {
    const mistral = { ...VALID, architectures: ["MistralForCausalLM"], max_position_embeddings: 32_768 };
    const files = withFile("config.json", text(mistral));
    checkContext(files, 4096);
    expect(() => checkContext(files, 4097)).toThrow(/sliding_window = 4096 is less than limits.contextTokens = 4097/);
  });
});

const SHARDED = "qwen2-sharded";
const SECOND = "model-00002-of-00005.safetensors";

describe("checkpoint", () => {
  test("missing, extra and misshapen tensors are refused, as is the optimizer state of another model", () => {
    const tensors = new Map(readSafetensors(tinyCheckpoint().get(MODEL_FILE) ?? new Uint8Array(), "x").tensors);
    const norm = tensors.get("model.norm.weight");
    if (!norm) throw new Error("the tiny model has a final norm");
    tensors.delete("model.norm.weight");
    expect(() => parseCheckpoint(withFile(MODEL_FILE, writeSafetensors(tensors)))).toThrow(
      /no tensor 'model.norm.weight'/,
    );
    tensors.set("model.norm.weight", { shape: [3], values: new Float32Array(3) });
    expect(() => parseCheckpoint(withFile(MODEL_FILE, writeSafetensors(tensors)))).toThrow(/has shape \[3\]/);
    tensors.set("model.norm.weight", norm).set("model.norm.bias", norm);
    expect(() => parseCheckpoint(withFile(MODEL_FILE, writeSafetensors(tensors)))).toThrow(
      /'model.norm.bias' is not part/,
    );
    const foreign = writeSafetensors(new Map([["m", { shape: [1], values: new Float32Array(1) }]]));
    expect(() => readOptimizer(withFile("optimizer.safetensors", foreign), 5)).toThrow(/not the state of this model/);
  });

  test("weights are the same from memory and from disk, and a single file wins over shards", () => {
    const shards = checkpointFiles(SHARDED);
    const { config, layout, weights } = parseCheckpoint(shards);
    expect(parseCheckpoint(localFiles(SHARDED))).toEqual({ config, layout, weights });
    // A published version has a single file beside its base's shards, and the single file wins.
    const doubled = weights.map((w) => 2 * w);
    const published = new Map([...shards, [MODEL_FILE, writeModel(layout, doubled)]]);
    expect(parseCheckpoint(published).weights).toEqual(doubled);
  });
});

describe("a damaged checkpoint", () => {
  test.each<[string, (files: Map<string, CheckpointFile>) => void, RegExp]>([
    [
      "no weights",
      (files) => files.delete(INDEX_FILE),
      /the checkpoint has neither model.safetensors nor model.safetensors.index.json/,
    ],
    [
      "a shard missing from the checkpoint",
      (files) => files.delete(SECOND),
      /^model-00002-of-00005.safetensors: not in the checkpoint, though .* names it/,
    ],
    [
      "a truncated shard",
      (files) => files.set(SECOND, (files.get(SECOND) as Uint8Array).slice(0, -1)),
      /^model-00002-of-00005.safetensors: cut off inside 'model/,
    ],
    [
      "a shard without its tensors",
      (files) => files.set(SECOND, writeSafetensors(new Map())),
      /^model-00002-of-00005.safetensors: no tensor 'model.layers.0.*', which model.safetensors.index.json /,
    ],
    [
      "a shard whose size changed on disk",
      (files) => files.set(SECOND, { path: checkpointPath(SHARDED, SECOND), bytes: 99_999 }),
      /^model-00002-of-00005.safetensors: \d+ bytes after '.*' belong to no tensor/,
    ],
    [
      "a shard missing on disk",
      (files) => files.set(SECOND, { path: "/nowhere/x.safetensors", bytes: 99 }),
      /^\/nowhere\/x.safetensors cannot be read/,
    ],
    ["a malformed index", (files) => files.set(INDEX_FILE, text({})), /^model.safetensors.index.json: weight_map/],
    [
      "NaN in a shard",
      (files) => files.set(SECOND, endingInNaN(files.get(SECOND) as Uint8Array)),
      /^model-00002-of-00005.safetensors: 'model.layers.0.*' holds NaN at element \d+ of \[/,
    ],
  ])("is refused with the file's name: %s", (_name, damage, message) => {
    const files = new Map<string, CheckpointFile>(checkpointFiles(SHARDED));
    damage(files);
    expect(() => parseCheckpoint(files)).toThrow(message);
  });
});

test("initial weights are a function of the seed; logits of a tied head start at unit scale", () => {
  const [a, b] = [initializeWeights(TINY, 1), initializeWeights(TINY, 2)];
  expect(initializeWeights(TINY, 1)).toEqual(a);
  expect(a).not.toEqual(b);
  const embedding = a.subarray(0, TINY.vocabulary * TINY.width);
  const variance = embedding.reduce((sum, w) => sum + w * w, 0) / embedding.length;
  expect(variance).toBeGreaterThan(0.8);
  expect(variance).toBeLessThan(1.2);
  expect(a.at(-1)).toBeCloseTo(1 / Math.sqrt(TINY.width), 6);
});
