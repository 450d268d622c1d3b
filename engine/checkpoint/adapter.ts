/**
 * @file A model's LoRA adapter in PEFT's format: `adapter_config.json` and `adapter_model.safetensors`. PEFT features that this engine does not
 * support are refused by name. An adapter whose shapes belong to another base is refused too.
 */
import * as z from "zod";
import { parseHubModel } from "../../core/contracts/hub-model.ts";
import { type LoraConfig, LoraTarget } from "../../core/contracts/lora.ts";
import { parse, parseJson } from "../../core/contracts/parse.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFiles } from "../../core/ports.ts";
import { stream } from "../../core/random.ts";
import type { ModelConfig } from "./config.ts";
import { wholeFile } from "./files.ts";
import { layoutOf, linearParameters, type ParameterLayout, viewOf } from "./parameters.ts";
import { refuseUnsavable } from "./shards.ts";
import { locateTensors } from "./tensors.ts";
import { readWeights } from "./weights.ts";

export const ADAPTER_FILE = "adapter_model.safetensors";
export const ADAPTER_CONFIG_FILE = "adapter_config.json";

export interface Adapter {
  readonly lora: LoraConfig;
  readonly layout: ParameterLayout;
  /** All A and B matrices, in the layout's order. */
  readonly weights: Float32Array;
}

/** PEFT's names for the A [rank, in] and B [out, rank] of a weight [out, in]. */
export function adapterNames(weight: string): { readonly down: string; readonly up: string } {
  const layer = `base_model.model.${weight.replace(/\.weight$/, "")}`;
  return { down: `${layer}.lora_A.weight`, up: `${layer}.lora_B.weight` };
}

export function adapterLayout(config: ModelConfig, { rank, targets }: LoraConfig): ParameterLayout {
  return layoutOf(
    linearParameters(config, targets).flatMap(({ name, shape: [out = 0, inputs = 0] }): [string, number[]][] => {
      const { down, up } = adapterNames(name);
      return [
        [down, [rank, inputs]],
        [up, [out, rank]],
      ];
    }),
  );
}

/** PEFT's initialization: A uniform within ±1 / sqrt(in) (Kaiming, a = sqrt 5), B zero, so that the model initially equals its base. */
export function initializeAdapter(config: ModelConfig, lora: LoraConfig, seed: readonly (string | number)[]): Adapter {
  const layout = adapterLayout(config, lora);
  refuseUnsavable(layout, lora);
  const weights = new Float32Array(layout.length);
  for (const { name, shape, offset, length } of layout.parameters) {
    if (!name.endsWith("lora_A.weight")) continue;
    const { uniform } = stream("lora", ...seed, name);
    const bound = 1 / Math.sqrt(shape[1] ?? 1);
    for (let i = offset; i < offset + length; i++) weights[i] = bound * (2 * uniform() - 1);
  }
  return { lora, layout, weights };
}

/** The adapter of a checkpoint; null if it has none. */
export function readAdapter(files: CheckpointFiles, config: ModelConfig): Adapter | null {
  const lora = readAdapterConfig(files)?.lora;
  const hasWeights = files.has(ADAPTER_FILE);
  if (!lora && !hasWeights) return null;
  if (!lora || !hasWeights) {
    const missing = lora ? ADAPTER_FILE : ADAPTER_CONFIG_FILE;
    const fault = `${missing}: not in the checkpoint, though the rest of the adapter is: add the missing file`;
    throw new MgrpoError("checkpoint-damaged", fault);
  }
  const layout = adapterLayout(config, lora);
  const found = locateTensors(files, ADAPTER_FILE);
  const weights = new Float32Array(layout.length);
  for (const parameter of layout.parameters) {
    const { name, shape } = parameter;
    const location = found.get(name);
    if (!location) throw wrongBase(`no tensor '${name}', which ${ADAPTER_CONFIG_FILE} and this base require`);
    if (location.entry.shape.join() !== shape.join()) {
      throw wrongBase(`'${name}' has shape [${location.entry.shape}], but this base requires [${shape}]`);
    }
    readWeights(location, viewOf(parameter, weights));
    found.delete(name);
  }
  const [extra] = found.keys();
  if (extra !== undefined) throw extraTensor(extra, lora);
  return { lora, layout, weights };
}

/** The error for a tensor that the layout lacks. If the adapter's config lists its target, the adapter is for a base with more layers. */
function extraTensor(name: string, { targets }: LoraConfig): MgrpoError {
  const target = LoraTarget.options.find((one) => new RegExp(`\\.${one}\\.lora_[AB]\\.weight$`).test(name));
  if (target === undefined) {
    const supported = `this engine supports LoRA matrices of ${LoraTarget.options.join(", ")}`;
    const fault = `tensor '${name}' is not supported: ${supported}: save the adapter without it`;
    return new MgrpoError("engine-unsupported", `${ADAPTER_FILE}: ${fault}`);
  }
  if (targets.includes(target)) return wrongBase(`tensor '${name}' belongs to no layer of this base`);
  const fault = `tensor '${name}' is there, but target_modules in ${ADAPTER_CONFIG_FILE} does not list ${target}`;
  const advice = `add ${target} to target_modules, or save the adapter without the tensor`;
  return new MgrpoError("checkpoint-damaged", `${ADAPTER_FILE}: ${fault}: ${advice}`);
}

const wrongBase = (fault: string) =>
  new MgrpoError(
    "checkpoint-damaged",
    `${ADAPTER_FILE}: ${fault}: the adapter is for another base: open it with that base`,
  );

/** PEFT settings that are read here or do not change what an adapter computes. All others but `init_lora_weights` must be off. */
const SUPPORTED_SETTINGS = new Set([
  "auto_mapping",
  "base_model_name_or_path",
  "inference_mode",
  "lora_alpha",
  "megatron_core",
  "peft_type",
  "peft_version",
  "qalora_group_size",
  "r",
  "revision",
  "runtime_config",
  "target_modules",
  "task_type",
]);
/** Values of init_lora_weights that leave the base as it is. */
const PLAIN_INITIALIZATIONS: readonly unknown[] = [null, true, false, "gaussian"];

const isOff = (value: unknown) =>
  value === null ||
  value === false ||
  value === 0 ||
  value === "none" ||
  (typeof value === "object" && Object.keys(value).length === 0);

const PeftConfig = z.looseObject({ peft_type: z.string() });

const PeftLoraConfig = z.looseObject({
  base_model_name_or_path: z.string().nullish(),
  revision: z.string().nullish(),
  r: z.int().positive(),
  lora_alpha: z.number().positive(),
});

export interface AdapterConfig {
  readonly lora: LoraConfig;
  /** Path or hub name of the base, as the adapter's writer recorded it. */
  readonly base: string | undefined;
  /** The base's revision, if it is a hub name. */
  readonly revision: string | undefined;
}

/** Undefined if the checkpoint has no adapter_config.json. */
export function readAdapterConfig(files: CheckpointFiles): AdapterConfig | undefined {
  const file = files.get(ADAPTER_CONFIG_FILE);
  if (!file) return undefined;
  const peft = parseJson(PeftConfig, wholeFile(file), ADAPTER_CONFIG_FILE, "checkpoint-damaged");
  const refuse = (key: string, value: unknown, supported: string) => {
    throw new MgrpoError(
      "engine-unsupported",
      `${ADAPTER_CONFIG_FILE}: ${key} = ${JSON.stringify(value)} is not supported: this engine supports ${supported}`,
    );
  };
  // An adapter of another type lacks settings that LORA requires: it is unsupported, not damaged.
  if (peft.peft_type !== "LORA") refuse("peft_type", peft.peft_type, "LORA");
  const config = parse(PeftLoraConfig, peft, ADAPTER_CONFIG_FILE, "checkpoint-damaged");
  for (const [key, value] of Object.entries(config)) {
    const plain =
      key === "init_lora_weights" ? PLAIN_INITIALIZATIONS.includes(value) : SUPPORTED_SETTINGS.has(key) || isOff(value);
    if (!plain) refuse(key, value, "plain LoRA only");
  }
  const modules = config["target_modules"];
  const targets = z.array(LoraTarget).safeParse(modules);
  if (!targets.success) refuse("target_modules", modules, `lists of ${LoraTarget.options.join(", ")}`);
  const listed: readonly string[] = targets.data ?? [];
  const lora = {
    rank: config.r,
    alpha: config.lora_alpha,
    // PEFT writes a set, in arbitrary order.
    targets: LoraTarget.options.filter((target) => listed.includes(target)),
  };
  return { lora, base: config.base_model_name_or_path ?? undefined, revision: config.revision ?? undefined };
}

/** `base`: path of the base model, or its name on the hub, which PEFT reads as two settings. */
export function writeAdapterConfig({ rank, alpha, targets }: LoraConfig, base: string): string {
  const hub = parseHubModel(base);
  return `${JSON.stringify(
    {
      peft_type: "LORA",
      task_type: "CAUSAL_LM",
      base_model_name_or_path: hub?.repository ?? base,
      ...(hub && { revision: hub.revision }),
      r: rank,
      lora_alpha: alpha,
      target_modules: targets,
      lora_dropout: 0,
      bias: "none",
      fan_in_fan_out: false,
      use_rslora: false,
      use_dora: false,
      modules_to_save: null,
      init_lora_weights: true,
      inference_mode: true,
    },
    null,
    2,
  )}\n`;
}
