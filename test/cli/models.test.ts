/** @file Models wherever the command line takes one: a PEFT folder brings its base, and an adapter of another base is one line. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { readBases, readModel } from "../../cli/local/base-models.ts";
import { RunConfig } from "../../core/contracts/config.ts";
import type { CheckpointFiles } from "../../core/ports.ts";
import { writeAdapterConfig } from "../../engine/checkpoint/adapter.ts";
import { wholeFile } from "../../engine/checkpoint/files.ts";
import { LORA, TINY, tinyAdapter, tinyCheckpoint } from "../engine/tiny.ts";
import { bpeFiles } from "../fixtures/tokenizers.ts";

const root = mkdtempSync(join(tmpdir(), "mgrpo-models-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

function write(name: string, files: CheckpointFiles): string {
  const folder = join(root, name);
  mkdirSync(folder, { recursive: true });
  for (const [file, bytes] of files) writeFileSync(join(folder, file), wholeFile(bytes));
  return folder;
}

const adapterOf = (base: string): CheckpointFiles =>
  new Map([
    ...[...tinyAdapter()].filter(([name]) => name === "adapter_model.safetensors"),
    ["adapter_config.json", new TextEncoder().encode(writeAdapterConfig(LORA, base))],
  ]);

function configOf(model: string): RunConfig {
  const agent = { model, lora: LORA, limits: { contextTokens: 16, turnTokens: 8 } };
  return RunConfig.parse({ run: "r", recipe: "atlas", steps: 1, agents: { main: agent } });
}

test("an adapter's folder opens with the base that it names relative to itself", async () => {
  const base = write("base", new Map([...tinyCheckpoint(), ...bpeFiles()]));
  const opened = await readModel(write("adapters/one", adapterOf("../../base")), "--model");
  expect([...opened.keys()].sort()).toEqual([
    "adapter_config.json",
    "adapter_model.safetensors",
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
  ]);
  expect(Buffer.from(wholeFile(opened.get("adapter_config.json") ?? new Uint8Array())).toString()).toContain(base);
});

test("an adapter of a base of another shape is refused in one line that names it", async () => {
  const wide = { ...TINY, width: 2 * TINY.width };
  write("wide", new Map([...tinyCheckpoint(wide), ...bpeFiles()]));
  const folder = write("adapters/two", adapterOf("../../wide"));
  const reading = readBases(configOf(folder), "train");
  await expect(reading).rejects.toMatchObject({ code: "checkpoint-damaged" });
  await expect(reading).rejects.toThrow(
    /^model of agent 'main', .*two: adapter_model.safetensors: .* has shape \[.*\], on this base it would be \[.*\]: it is an adapter for another base; open it with its own$/,
  );
});
