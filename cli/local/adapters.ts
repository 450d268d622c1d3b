/**
 * @file LoRA adapters. A PEFT folder is opened together with its base model, which must be the one that the adapter was trained on. An
 * agent that trains an adapter starts from the one in its folder, or from a fresh one.
 */
import { existsSync } from "node:fs";
import { isAbsolute, join, resolve } from "node:path";
import type { AgentConfig } from "../../core/contracts/agent-config.ts";
import { HUB_PREFIX, hubModelName, parseHubModel } from "../../core/contracts/hub-model.ts";
import type { LoraConfig } from "../../core/contracts/lora.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { CheckpointFiles } from "../../core/ports.ts";
import {
  ADAPTER_CONFIG_FILE,
  ADAPTER_FILE,
  type AdapterConfig,
  initializeAdapter,
  readAdapterConfig,
  writeAdapterConfig,
} from "../../engine/checkpoint/adapter.ts";
import { BASE_FILE, readBasePointer, refuseOtherBase } from "../../engine/checkpoint/base-pointer.ts";
import { readModelConfig } from "../../engine/checkpoint/config.ts";
import { INDEX_FILE, MODEL_FILE } from "../../engine/checkpoint/tensors.ts";
import { writeModel } from "../../engine/checkpoint/weights.ts";
import { TINKER } from "../../engine/tinker/policy.ts";
import { hasTemplate, TEMPLATE_FILE } from "../../engine/tokenizer/chat-template.ts";

/**
 * The files of a complete model: those of the folder, plus those of its base model if it has only an adapter. Some programs
 * copy the base's config.json beside an adapter: the base's own is used. `pin` gives the name that is recorded for the base: a hub model's with
 * its commit.
 */
export async function withBaseModel(
  files: CheckpointFiles,
  folder: string,
  read: (base: string) => Promise<CheckpointFiles>,
  pin: (base: string) => Promise<string> = async (base) => base,
): Promise<CheckpointFiles> {
  const adapter = readAdapterConfig(files);
  const isWhole = files.has("config.json") && (files.has(MODEL_FILE) || files.has(INDEX_FILE));
  if (!adapter || isWhole) return files;
  const location = baseLocation(folder, adapter, readBasePointer(files, folder)?.path);
  if (location === undefined) {
    throw new MgrpoError(
      "checkpoint-damaged",
      `${folder}: ${ADAPTER_CONFIG_FILE}: base_model_name_or_path is missing: set it to the folder or the hub name of the adapter's base model`,
    );
  }
  const [base, baseFiles] = await openBase(location, folder, read, pin);
  if (baseFiles.has(ADAPTER_CONFIG_FILE)) {
    throw new MgrpoError(
      "engine-unsupported",
      `${folder} is an adapter of ${base}, which is itself an adapter: merge that one into its base, and name the merged model in ${ADAPTER_CONFIG_FILE}`,
    );
  }
  await refuseOtherBase(files, folder, baseFiles, base);
  const replaced = [BASE_FILE, ADAPTER_CONFIG_FILE, "config.json"];
  const own = new Map([...files].filter(([name]) => !replaced.includes(name)));
  // The base's template file would hide a template in the adapter's tokenizer_config.json.
  const inherited = [...baseFiles].filter(([name]) => name !== TEMPLATE_FILE || !hasTemplate(own));
  const config = new TextEncoder().encode(writeAdapterConfig(adapter.lora, base));
  return new Map([...inherited, ...own, [ADAPTER_CONFIG_FILE, config]]);
}

/** The name to record for an adapter's base, and its files. An error of the hub does not name the adapter, so this adds it. */
async function openBase(
  location: string,
  folder: string,
  read: (base: string) => Promise<CheckpointFiles>,
  pin: (base: string) => Promise<string>,
): Promise<[base: string, files: CheckpointFiles]> {
  try {
    const base = await pin(location);
    return [base, await read(base)];
  } catch (error) {
    if (!isMgrpoError(error, "not-found", "hub-unavailable", "hub-refused")) throw error;
    const { code, retryable, message, cause } = error;
    throw new MgrpoError(code, `${location}, the base of the adapter in ${folder}: ${message}`, { retryable, cause });
  }
}

/**
 * Where an adapter's base is: an s3:// prefix, a path (relative to the adapter's or the current folder), or a name on the hub; any other text
 * as it is. If a relative path is in neither folder, the base is the folder that base.json names (`recorded`), if it exists. Undefined if the
 * adapter names no base.
 */
export function baseLocation(folder: string, { base, revision }: AdapterConfig, recorded?: string): string | undefined {
  if (base === undefined || base === "") return undefined;
  if (base.startsWith("s3://") || base.startsWith(HUB_PREFIX) || isAbsolute(base)) return base;
  const found = [join(folder, base), base, recorded].find((path) => path !== undefined && existsSync(path));
  if (found !== undefined) return resolve(found);
  const hub = parseHubModel(`${HUB_PREFIX}${base}${revision === undefined ? "" : `@${revision}`}`);
  return hub ? hubModelName(hub) : base;
}

/** The files that an agent's training starts from: its model, and with `lora` an adapter, unless a Tinker server keeps it. */
export function withAdapter(
  name: string,
  { model, policy, lora, trained }: AgentConfig,
  seed: number,
  files: CheckpointFiles,
): CheckpointFiles {
  const own = readAdapterConfig(files)?.lora;
  const refuse = (why: string) => {
    throw new MgrpoError("config-invalid", `agents.${name}.lora: ${model} ${why}`);
  };
  if (own) {
    if (lora === null && trained)
      refuse(`is an adapter: write ${JSON.stringify(own)}, or merge it into its base first`);
    if (lora !== null && textOf(lora) !== textOf(own))
      refuse(`is an adapter with ${JSON.stringify(own)}: write the same`);
    return files;
  }
  if (lora === null || policy.startsWith(TINKER)) return files;
  const { layout, weights } = initializeAdapter(readModelConfig(files), lora, [seed, name]);
  return new Map([
    ...files,
    [ADAPTER_CONFIG_FILE, new TextEncoder().encode(writeAdapterConfig(lora, model))],
    [ADAPTER_FILE, writeModel(layout, weights)],
  ]);
}

const textOf = ({ rank, alpha, targets }: LoraConfig) => JSON.stringify([rank, alpha, [...targets].sort()]);
