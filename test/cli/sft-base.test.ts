/**
 * @file An adapter that supervised training wrote opens only on the base that it was trained on, even if another one has the same shape. Adapters of
 * earlier releases, which have no base.json, open on any base of their shape.
 */
import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readModel } from "../../cli/local/base-models.ts";
import type { CheckpointFiles } from "../../core/ports.ts";
import { writeAdapterConfig } from "../../engine/checkpoint/adapter.ts";
import { planModelFiles, serializeFiles } from "../../engine/checkpoint/shards.ts";
import { parseCheckpoint } from "../../engine/checkpoint/weights.ts";
import { openEngine, withLora, writeCheckpoint } from "../../engine/index.ts";
import { trainAgent } from "../../sft/train-agent.ts";
import { LORA, OPTIONS, TINY, tinyCheckpoint } from "../engine/tiny.ts";

const root = mkdtempSync(join(tmpdir(), "mgrpo-sft-base-"));
afterAll(() => rmSync(root, { recursive: true }));

const base = join(root, "base");
const trained = join(root, "warm", "main");
const read = (folder: string) => readModel(folder, "agents.main.model");

/** Trains one step, and writes the adapter's folder. */
async function train(stage: string, files: CheckpointFiles): Promise<void> {
  const example = { tokens: [1, 2, 3, 4], turns: [[2, 4]] as const };
  const plan = { tokens: 4, learningRate: 0.05, warmUp: 0, evaluateEvery: 1, patience: 1 };
  await trainAgent({
    ...{ agent: "main", seed: 1, base: files, policy: "eager", engine: openEngine("eager"), options: OPTIONS },
    ...{ examples: { training: [example], heldOut: [] }, plan, batchTokens: 4 },
    ...{ folder: join(root, stage, "main"), stateFolder: join(root, stage, ".sft", "main") },
  });
}

beforeAll(async () => {
  await writeCheckpoint(base, tinyCheckpoint());
  await train("warm", withLora(await read(base), base, ["test"], LORA));
});

/** A copy of the trained adapter, and beside it a base with these files, which its `adapter_config.json` names. */
async function movedTo(name: string, files: CheckpointFiles): Promise<string> {
  const folder = join(root, name, "main");
  cpSync(trained, folder, { recursive: true });
  const config = new TextEncoder().encode(writeAdapterConfig(LORA, "../base"));
  await writeCheckpoint(folder, new Map([["adapter_config.json", config]]));
  await writeCheckpoint(join(root, name, "base"), files);
  return folder;
}

test("an adapter opens on its base, and on a copy of its base", async () => {
  expect((await read(trained)).get("model.safetensors")).toEqual(tinyCheckpoint().get("model.safetensors"));
  const copied = await read(await movedTo("copy", tinyCheckpoint()));
  expect(copied.get("adapter_model.safetensors")).toEqual((await read(trained)).get("adapter_model.safetensors"));
});

test("an adapter whose relative base path leads nowhere opens on the folder that base.json recorded", async () => {
  const folder = join(root, "elsewhere", "main");
  cpSync(trained, folder, { recursive: true });
  const config = new TextEncoder().encode(writeAdapterConfig(LORA, "models/base"));
  await writeCheckpoint(folder, new Map([["adapter_config.json", config]]));
  expect((await read(folder)).get("model.safetensors")).toEqual(tinyCheckpoint().get("model.safetensors"));
});

test("another base of the same shape is refused in one line, which says what to do", async () => {
  const folder = await movedTo("other", tinyCheckpoint(TINY, 2));
  await expect(read(folder)).rejects.toMatchObject({
    code: "checkpoint-damaged",
    message:
      `${folder} is an adapter of another base model: model.safetensors in ${join(root, "other", "base")} is not the file that it ` +
      "was trained on; put its own base model there, or name it in adapter_config.json",
  });
});

test("other copies of the weights beside those that are read make no difference", async () => {
  const copies = new Map(
    ["consolidated.safetensors", "model-00001-of-00002.safetensors"].map((name) => [name, Uint8Array.of(1)]),
  );
  await writeCheckpoint(base, copies);
  try {
    await train("copies", withLora(await read(base), base, ["test"], LORA));
  } finally {
    for (const name of copies.keys()) rmSync(join(base, name));
  }
  expect((await read(join(root, "copies", "main"))).has("model.safetensors")).toBe(true);
});

test("a single file of other weights, which is read in place of the right shards, is refused", async () => {
  const { config, layout, weights } = parseCheckpoint(tinyCheckpoint());
  const shards = serializeFiles(planModelFiles(layout, weights, "F32", 1000));
  expect(shards.size).toBeGreaterThan(2);
  const sharded = join(root, "sharded");
  const files = new Map([...tinyCheckpoint(config), ...shards]);
  files.delete("model.safetensors");
  await writeCheckpoint(sharded, files);
  await train("of-shards", withLora(await read(sharded), sharded, ["test"], LORA));
  const folder = join(root, "of-shards", "main");
  expect((await read(folder)).has("model.safetensors.index.json")).toBe(true);
  cpSync(join(base, "model.safetensors"), join(sharded, "model.safetensors"));
  await expect(read(folder)).rejects.toThrow(`model.safetensors in ${sharded} is not the file that it was trained on`);
});

test("an adapter without base.json, as earlier releases wrote adapters, opens on any base of its shape", async () => {
  const folder = await movedTo("older", tinyCheckpoint(TINY, 2));
  rmSync(join(folder, "base.json"));
  expect((await read(folder)).get("model.safetensors")).toEqual(tinyCheckpoint(TINY, 2).get("model.safetensors"));
});

test("an adapter that is trained further names the same base", async () => {
  await train("further", await read(trained));
  const pointer = (folder: string) => readFileSync(join(folder, "base.json"), "utf8");
  expect(pointer(join(root, "further", "main"))).toBe(pointer(trained));
  expect((await read(join(root, "further", "main"))).has("model.safetensors")).toBe(true);
});
