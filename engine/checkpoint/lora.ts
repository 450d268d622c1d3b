/** @file A fresh LoRA adapter beside its base. The model computes what its base does until the adapter is trained. */
import { LoraConfig } from "../../core/contracts/lora.ts";
import { parse } from "../../core/contracts/parse.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFiles } from "../../core/ports.ts";
import { ADAPTER_CONFIG_FILE, ADAPTER_FILE, initializeAdapter, writeAdapterConfig } from "./adapter.ts";
import { readModelConfig } from "./config.ts";
import { withoutOptimizer } from "./shards.ts";
import { writeModel } from "./weights.ts";

/**
 * Adds an adapter to a base checkpoint, so that a trainer trains the adapter alone. Defaults: rank 16, alpha 32, every linear layer
 * except the output head. `base` names the base model in PEFT's adapter_config.json. The same seed gives the same adapter. The optimizer's state
 * of the whole model, if there is one, is left out. Throws `config-invalid` if a setting of `lora` is invalid, or if the checkpoint has an
 * adapter, which a fresh one would replace.
 */
export function withLora(
  files: CheckpointFiles,
  base: string,
  seed: readonly (string | number)[],
  lora: Partial<LoraConfig> = {},
): CheckpointFiles {
  if (files.has(ADAPTER_FILE) || files.has(ADAPTER_CONFIG_FILE))
    throw new MgrpoError(
      "config-invalid",
      "withLora: the checkpoint already has an adapter: open the trainer on it as it is, or merge it into its base first",
    );
  const config = parse(LoraConfig, lora, "withLora", "config-invalid");
  const { layout, weights } = initializeAdapter(readModelConfig(files), config, seed);
  return new Map([
    ...withoutOptimizer(files),
    [ADAPTER_CONFIG_FILE, new TextEncoder().encode(writeAdapterConfig(config, base))],
    [ADAPTER_FILE, writeModel(layout, weights)],
  ]);
}
