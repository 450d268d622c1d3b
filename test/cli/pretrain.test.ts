/** @file Pretraining: the loss falls, the folder is a complete checkpoint, and the same settings give the same bytes. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { pretrainBase } from "../../cli/pretrain.ts";
import type { BaseModel } from "../../core/recipe.ts";
import { readCheckpoint } from "../../engine/checkpoint/weights.ts";
import { baseModels } from "../../recipes/atlas/bases.ts";
import { recipe } from "../../recipes/atlas/recipe.ts";
import * as toolsModule from "../../recipes/atlas/tools.ts";

const folder = mkdtempSync(join(tmpdir(), "mgrpo-pretrain-"));
afterAll(() => rmSync(folder, { recursive: true }));

async function pretrained(name: string, tokens: number): Promise<Map<string, Uint8Array>> {
  const searcher = baseModels.find(({ agent }) => agent === "searcher");
  if (!searcher) throw new Error("atlas has no searcher");
  const files = searcher.files();
  const base: BaseModel = {
    ...searcher,
    files: () => files,
    folder: join(folder, name),
    training: { ...searcher.training, tokens, batchTokens: 512 },
  };
  await pretrainBase(base, recipe, toolsModule);
  return new Map(readdirSync(base.folder).map((file) => [file, new Uint8Array(readFileSync(join(base.folder, file)))]));
}

const lossOf = (files: ReadonlyMap<string, Uint8Array>): number =>
  JSON.parse(new TextDecoder().decode(files.get("training.json"))).loss;

test("a base model learns, is complete, and has the same bytes every time", async () => {
  const [once, again] = [await pretrained("a", 4_000), await pretrained("b", 4_000)];
  const short = await pretrained("c", 500);
  expect(lossOf(once)).toBeLessThan(lossOf(short) - 0.2);
  expect([...once.keys()].sort()).toEqual([
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "training.json",
  ]);
  expect(readCheckpoint(once).weights.every(Number.isFinite)).toBe(true);
  for (const [name, bytes] of once)
    expect(Buffer.from(again.get(name) ?? []).equals(Buffer.from(bytes)), name).toBe(true);
}, 120_000);
