/**
 * @file Adapters of base models: a folder as PEFT writes it is opened together with its base, which must be the one that it was trained
 * on; an agent that is to train an adapter gets a fresh one, unless it brings its own.
 */

import { BasePointer } from "../../core/contracts/checkpoint.ts";
import type { AgentConfig } from "../../core/contracts/config.ts";
import type { LoraConfig } from "../../core/contracts/lora.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFiles } from "../../core/ports.ts";
import {
  ADAPTER_CONFIG_FILE,
  ADAPTER_FILE,
  initializeAdapter,
  readAdapterConfig,
  writeAdapterConfig,
} from "../../engine/checkpoint/adapter.ts";
import { readModelConfig } from "../../engine/checkpoint/config.ts";
import { wholeFile } from "../../engine/checkpoint/files.ts";
import { writeModel } from "../../engine/checkpoint/weights.ts";
import { sha256OfFile } from "../../engine/hash.ts";

/** Written beside an exported adapter: a BasePointer. */
export const BASE_FILE = "base.json";

/** A checkpoint that is complete as it is, or an adapter's folder with the files of its base, which `read` reads from their own. */
export async function withBaseModel(
  files: CheckpointFiles,
  folder: string,
  read: (base: string) => Promise<CheckpointFiles>,
): Promise<CheckpointFiles> {
  const adapter = readAdapterConfig(files);
  if (!adapter || files.has("config.json")) return files;
  const { base } = adapter;
  if (base === undefined) {
    throw new MgrpoError(
      "checkpoint-damaged",
      `${folder}: ${ADAPTER_CONFIG_FILE}: base_model_name_or_path is missing: write the folder of the adapter's base model there`,
    );
  }
  const baseFiles = await read(base);
  const pointer = files.get(BASE_FILE);
  if (pointer)
    await refuseOther(baseFiles, base, parseJson(BasePointer, wholeFile(pointer), `${folder}: ${BASE_FILE}`), folder);
  return new Map([...baseFiles, ...[...files].filter(([name]) => name !== BASE_FILE)]);
}

async function refuseOther(files: CheckpointFiles, base: string, pointer: BasePointer, folder: string): Promise<void> {
  for (const [name, { sha256: expected }] of Object.entries(pointer.files)) {
    const file = files.get(name);
    if (file && (await sha256OfFile(file)) === expected) continue;
    throw new MgrpoError(
      "checkpoint-damaged",
      `${folder} is an adapter for another base: ${name} of ${base} is ${file ? "not the file that it was trained on" : "missing"}; put its own base there`,
    );
  }
}

/** The files that an agent's training starts from: of an agent with `lora`, its base with the adapter that it brings or a fresh one. */
export function withAdapter(
  name: string,
  { model, lora, trained }: AgentConfig,
  seed: number,
  files: CheckpointFiles,
): CheckpointFiles {
  const brought = readAdapterConfig(files)?.lora;
  const refuse = (why: string) => {
    throw new MgrpoError("config-invalid", `agents.${name}.lora: ${model} ${why}`);
  };
  if (brought) {
    if (lora === null && trained)
      refuse(`is an adapter: write ${JSON.stringify(brought)}, or merge it into its base first`);
    if (lora !== null && textOf(lora) !== textOf(brought))
      refuse(`is an adapter of ${JSON.stringify(brought)}: write the same`);
    return files;
  }
  if (lora === null) return files;
  const { layout, weights } = initializeAdapter(readModelConfig(files), lora, [seed, name]);
  return new Map([
    ...files,
    [ADAPTER_CONFIG_FILE, new TextEncoder().encode(writeAdapterConfig(lora, model))],
    [ADAPTER_FILE, writeModel(layout, weights)],
  ]);
}

const textOf = ({ rank, alpha, targets }: LoraConfig) => JSON.stringify([rank, alpha, [...targets].sort()]);
