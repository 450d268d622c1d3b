/** @file The files of a version after a save, and the hash that identifies its weights. */
import { expect, test } from "vitest";
import { OPTIMIZER_FILE } from "../../engine/checkpoint/shards.ts";
import { INDEX_FILE, MODEL_FILE } from "../../engine/checkpoint/tensors.ts";
import { sha256 } from "../../engine/hash.ts";
import { replaceFiles, weightsSha256 } from "../../gpu-workers/checkpoints.ts";

test("sharded weights replace a single weights file and its optimizer state, and vice versa; the hash covers only weights", () => {
  const part = (name: string) => ({ sha256: sha256(name), bytes: 1 });
  const parts = (...names: string[]) => Object.fromEntries(names.map((name) => [name, part(name)]));
  const single = parts("config.json", MODEL_FILE, OPTIMIZER_FILE);
  const shards = parts("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", INDEX_FILE);
  const moments = parts("optimizer-00001-of-00001.safetensors", "optimizer.safetensors.index.json");
  const sharded = replaceFiles(single, { ...shards, ...moments });
  expect(sharded).toEqual({ ...parts("config.json"), ...shards, ...moments });
  expect(weightsSha256(sharded)).toBe(weightsSha256(shards));
  expect(replaceFiles(sharded, parts(MODEL_FILE, OPTIMIZER_FILE))).toEqual(single);
});
