/** @file Checkpoints: a round trip keeps every bit, foreign dtypes are read, damage and what is unsupported are refused by name. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { CheckpointFiles } from "../../../core/ports.ts";
import { parseModelConfig, writeModelConfig } from "../../../gpu-workers/engines/checkpoint/config.ts";
import { initializeWeights } from "../../../gpu-workers/engines/checkpoint/initialize.ts";
import { readSafetensors, writeSafetensors } from "../../../gpu-workers/engines/checkpoint/safetensors.ts";
import { MODEL_FILE, readCheckpoint, readOptimizer } from "../../../gpu-workers/engines/checkpoint/weights.ts";
import { TINY, tinyCheckpoint } from "./tiny.ts";

const file = (name: string, bytes: Uint8Array): CheckpointFiles => new Map([...tinyCheckpoint(), [name, bytes]]);
const text = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

/** A safetensors file from raw bytes, written by hand. */
function raw(header: object, data: Uint8Array): Uint8Array {
  const json = text(header);
  const bytes = new Uint8Array(8 + json.length + data.length);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(json.length), true);
  bytes.set(json, 8);
  bytes.set(data, 8 + json.length);
  return bytes;
}

describe("safetensors", () => {
  test("what is written is read back bit for bit, and equal tensors give equal bytes", () => {
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

  test.each<[string, Uint8Array, RegExp]>([
    ["empty", new Uint8Array(), /m: 0 bytes are no safetensors file/],
    ["cut in the header", raw({ a: 1 }, new Uint8Array()).subarray(0, 10), /m: cut off inside the header/],
    ["header is no JSON", Uint8Array.of(2, 0, 0, 0, 0, 0, 0, 0, 0x7b, 0x7b), /m: header: not JSON/],
    ["malformed entry", raw({ a: { dtype: "F32" } }, new Uint8Array()), /header entry of 'a' is malformed/],
    [
      "cut in the data",
      raw({ a: { dtype: "F32", shape: [2], data_offsets: [0, 8] } }, new Uint8Array(4)),
      /cut off inside 'a'/,
    ],
    [
      "shape and size disagree",
      raw({ a: { dtype: "F32", shape: [3], data_offsets: [0, 8] } }, new Uint8Array(8)),
      /'a' has 8 bytes for shape \[3\]/,
    ],
    ["foreign dtype", raw({ a: { dtype: "I8", shape: [1], data_offsets: [0, 1] } }, new Uint8Array(1)), /'a' is I8/],
  ])("damage is named: %s", (_name, bytes, message) => {
    expect(() => readSafetensors(bytes, "m")).toThrow(message);
  });
});

describe("config.json", () => {
  const valid = JSON.parse(writeModelConfig(TINY, 512)) as Record<string, unknown>;

  test("what is written is read back", () => {
    expect(parseModelConfig(text(valid))).toEqual(TINY);
  });

  test.each<[string, unknown, RegExp]>([
    ["architectures", ["LlamaForCausalLM"], /architectures = \["LlamaForCausalLM"\] is not supported/],
    ["rope_scaling", { type: "yarn" }, /rope_scaling/],
    ["hidden_act", "gelu", /hidden_act = "gelu"/],
    ["attention_bias", true, /attention_bias/],
    ["num_key_value_heads", 3, /num_key_value_heads = 3/],
    ["hidden_size", "wide", /config.json: hidden_size/],
  ])("%s that we do not compute is refused by name", (key, value, message) => {
    expect(() => parseModelConfig(text({ ...valid, [key]: value }))).toThrow(message);
  });
});

describe("checkpoint", () => {
  test("missing, foreign and misshapen tensors are named", () => {
    const tensors = new Map(readSafetensors(tinyCheckpoint().get(MODEL_FILE) ?? new Uint8Array(), "x").tensors);
    const norm = tensors.get("model.norm.weight");
    if (!norm) throw new Error("the tiny model has a final norm");
    tensors.delete("model.norm.weight");
    expect(() => readCheckpoint(file(MODEL_FILE, writeSafetensors(tensors)))).toThrow(/no tensor 'model.norm.weight'/);
    tensors.set("model.norm.weight", { shape: [3], values: new Float32Array(3) });
    expect(() => readCheckpoint(file(MODEL_FILE, writeSafetensors(tensors)))).toThrow(/has shape \[3\]/);
    tensors.set("model.norm.weight", norm).set("model.norm.bias", norm);
    expect(() => readCheckpoint(file(MODEL_FILE, writeSafetensors(tensors)))).toThrow(/'model.norm.bias' is no part/);
    const foreign = writeSafetensors(new Map([["m", { shape: [1], values: new Float32Array(1) }]]));
    expect(() => readOptimizer(file("optimizer.safetensors", foreign), 5)).toThrow(/not the state of this model/);
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
});
