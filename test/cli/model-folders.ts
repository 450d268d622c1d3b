/** @file Folders with tiny models and adapters, for tests of the command line. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { RunConfig } from "../../core/contracts/config.ts";
import type { CheckpointFiles } from "../../core/ports.ts";
import { writeAdapterConfig } from "../../engine/checkpoint/adapter.ts";
import { wholeFile } from "../../engine/checkpoint/files.ts";
import { LORA, TINY, tinyAdapter } from "../engine/tiny.ts";

/** A tiny model with an embedding row for every token of `bpeFiles`, and few more. */
export const ROOMY = { ...TINY, vocabulary: 400 };

/** A temporary folder, removed after the file's tests. `write` makes a folder in it from files, and returns its path. */
export function modelFolders() {
  const root = mkdtempSync(join(tmpdir(), "mgrpo-models-"));
  afterAll(() => rmSync(root, { recursive: true, force: true }));
  const write = (name: string, files: CheckpointFiles): string => {
    const folder = join(root, name);
    mkdirSync(folder, { recursive: true });
    for (const [file, bytes] of files) writeFileSync(join(folder, file), wholeFile(bytes));
    return folder;
  };
  return { root, write };
}

/** The files of an adapter that names this base. */
export const adapterOf = (base: string): CheckpointFiles =>
  new Map([
    ...[...tinyAdapter()].filter(([name]) => name === "adapter_model.safetensors"),
    ["adapter_config.json", new TextEncoder().encode(writeAdapterConfig(LORA, base))],
  ]);

/** A run of one agent that trains an adapter on the model. */
export function configOf(model: string, settings: object = {}): RunConfig {
  const agent = { model, lora: LORA, limits: { contextTokens: 16, turnTokens: 8 }, ...settings };
  return RunConfig.parse({ run: "r", recipe: "atlas", steps: 1, agents: { main: agent } });
}
