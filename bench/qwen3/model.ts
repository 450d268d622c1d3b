/** @file Qwen3-0.6B's shape, and models of any shape with random weights, written to disk in pieces, so that they are never in memory as a whole. */
import { closeSync, openSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { CheckpointFile, CheckpointFiles } from "../../core/ports.ts";
import { stream } from "../../core/random.ts";
import { type ModelConfig, writeModelConfig } from "../../engine/checkpoint/config.ts";
import { parameterLayout } from "../../engine/checkpoint/parameters.ts";
import { toBfloat16, type WrittenType } from "../../engine/checkpoint/safetensors.ts";
import { MODEL_FILE } from "../../engine/checkpoint/tensors.ts";

export const QWEN3_06B: ModelConfig = {
  layers: 28,
  width: 1024,
  heads: 16,
  kvHeads: 8,
  headWidth: 128,
  ffnWidth: 3072,
  vocabulary: 151936,
  ropeTheta: 1000000,
  ropeScaling: null,
  epsilon: 1e-6,
  tied: true,
  queryKeyNorm: true,
  projectionBias: false,
};

/** Standard deviation of new matrices. Vectors (norms and biases) are 1. */
const STD = 0.02;
const PIECE = 1 << 20;
const PREFIX_BYTES = 8;
const BYTES: Readonly<Record<WrittenType, number>> = { F32: 4, BF16: 2 };

/** Writes `config.json` and `model.safetensors` into a folder; the weights stay on disk. */
export function writeRandomModel(
  folder: string,
  config: ModelConfig,
  contextTokens: number,
  dtype: WrittenType,
): CheckpointFiles {
  const { parameters } = parameterLayout(config);
  const size = BYTES[dtype];
  const entries = parameters.map(({ name, shape, offset, length }) => [
    name,
    { dtype, shape, data_offsets: [size * offset, size * (offset + length)] },
  ]);
  const json = JSON.stringify(Object.fromEntries(entries));
  const header = Buffer.from(json.padEnd(Math.ceil(json.length / 8) * 8));
  const prefix = Buffer.alloc(PREFIX_BYTES);
  prefix.writeBigUInt64LE(BigInt(header.length));
  const path = join(folder, MODEL_FILE);
  const file = openSync(path, "w");
  let bytes = 0;
  const write = (part: Uint8Array) => {
    for (let at = 0; at < part.length; ) at += writeSync(file, part, at);
    bytes += part.length;
  };
  try {
    write(prefix);
    write(header);
    const piece = new Float32Array(PIECE);
    for (const { name, shape, length } of parameters) {
      const { uniform } = stream("bench", "lora", name);
      const range = STD * Math.sqrt(12);
      for (let at = 0; at < length; at += PIECE) {
        const part = piece.subarray(0, Math.min(PIECE, length - at));
        if (shape.length === 1) part.fill(1);
        else for (let i = 0; i < part.length; i++) part[i] = range * (uniform() - 0.5);
        const stored = dtype === "F32" ? part : toBfloat16(part);
        write(new Uint8Array(stored.buffer, 0, stored.byteLength));
      }
    }
  } finally {
    closeSync(file);
  }
  const text = new TextEncoder().encode(writeModelConfig(config, contextTokens));
  writeFileSync(join(folder, "config.json"), text);
  return new Map<string, CheckpointFile>([
    ["config.json", text],
    [MODEL_FILE, { path, bytes }],
  ]);
}
