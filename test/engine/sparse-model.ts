/** @file A large model that takes almost no disk space: its file of weights is sparse, with data only in the header. */
import { mkdirSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { CheckpointFile, CheckpointFiles } from "../../core/ports.ts";
import { type ModelConfig, writeModelConfig } from "../../engine/checkpoint/config.ts";
import { parameterLayout } from "../../engine/checkpoint/parameters.ts";
import { MODEL_FILE } from "../../engine/checkpoint/tensors.ts";

/** Creates the folder. All weights read as 0. */
export function sparseModel(config: ModelConfig, folder: string): CheckpointFiles {
  mkdirSync(folder);
  const { parameters, length } = parameterLayout(config);
  const entries = parameters.map(({ name, shape, offset, length: count }) => [
    name,
    { dtype: "F32", shape, data_offsets: [4 * offset, 4 * (offset + count)] },
  ]);
  const json = JSON.stringify(Object.fromEntries(entries));
  const head = Buffer.from(`${" ".repeat(8)}${json.padEnd(8 * Math.ceil(json.length / 8))}`);
  head.writeBigUInt64LE(BigInt(head.length - 8));
  const file = { path: join(folder, MODEL_FILE), bytes: head.length + 4 * length };
  writeFileSync(file.path, head);
  truncateSync(file.path, file.bytes);
  return new Map<string, CheckpointFile>([
    ["config.json", new TextEncoder().encode(writeModelConfig(config, 4096))],
    [MODEL_FILE, file],
  ]);
}
