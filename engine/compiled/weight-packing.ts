/**
 * @file How a worker uses spare memory. A sampler packs its weights: it reorders them once for the products that read them, which costs a copy,
 * in float32 or in quantized codes. Only weights that never change are packed (a base under an adapter), and only for sampling: a training
 * product has many rows, and gains nothing. With what is left, a trainer keeps activations instead of recomputing them. The choice depends on
 * the machine's memory and never on how much memory is free, so that a resumed run makes the same choice and gets the same bits.
 */
import { totalmem } from "node:os";
import { LARGE_FILE_BYTES } from "../../core/checkpoint-source.ts";
import type { LoraConfig } from "../../core/contracts/lora.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { EngineOptions } from "../../core/ports.ts";
import type { ModelConfig } from "../checkpoint/config.ts";
import { computesWhole, planMemory, totalBytes } from "./memory.ts";
import type { StoredWeights } from "./open-weights.ts";

/** `auto` packs or keeps activations if a worker then needs at most this share of the machine's memory: a team of two leaves a third free. */
const AUTO_SHARE = 1 / 3;

/** A container may have less memory than its machine. */
export const machineBytes = (): number => Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY);

/** @throws MgrpoError `config-invalid` if packing is on but impossible. */
export function resolveWeightPacking(
  config: ModelConfig,
  lora: LoraConfig | null,
  options: EngineOptions,
  stored: StoredWeights,
  memoryBytes: number = machineBytes(),
): "on" | "off" {
  const { weightPacking = "auto", provider = "cpu" } = options;
  const obstacle = obstacleTo(lora, provider, stored);
  if (weightPacking === "on" && obstacle)
    throw new MgrpoError("config-invalid", `engine.weightPacking on: ${obstacle}: remove the setting`);
  if (weightPacking !== "auto") return weightPacking;
  if (obstacle) return "off";
  // The estimate leaves out prefix trees: the choice affects bits, so a run that resumes without trees must make the same one.
  const needed = totalBytes(
    planMemory(
      config,
      lora,
      { ...options, weightPacking: "on", gradientCheckpointing: "on", prefixTrees: false },
      stored,
    ),
  );
  return needed <= AUTO_SHARE * memoryBytes ? "on" : "off";
}

function obstacleTo(lora: LoraConfig | null, provider: string, { mapped }: StoredWeights): string | undefined {
  if (!lora) return "only a frozen base is packed, and without lora all weights are trained";
  if (provider === "webgpu" || provider === "cuda") return `a GPU (${provider}) has a layout of its own`;
  const mebibytes = LARGE_FILE_BYTES / 2 ** 20;
  return mapped ? undefined : `the base is not mapped, which takes aligned files on disk above ${mebibytes} MiB`;
}

/**
 * `off` keeps the linear layers' outputs for the backward pass. Full training in one graph (memory.ts) keeps all activations.
 * @param options with `weightPacking` resolved.
 */
export function resolveGradientCheckpointing(
  config: ModelConfig,
  lora: LoraConfig | null,
  options: EngineOptions,
  stored: StoredWeights,
  memoryBytes: number = machineBytes(),
): "on" | "off" {
  const { gradientCheckpointing = "auto", provider = "cpu" } = options;
  if (gradientCheckpointing !== "auto") return gradientCheckpointing;
  const withoutCheckpointing = { ...options, gradientCheckpointing: "off" } as const;
  if (!lora && computesWhole(config, withoutCheckpointing)) return "off";
  // On a GPU, the kept outputs would cross the bus.
  if (provider !== "cpu") return "on";
  const needed = totalBytes(planMemory(config, lora, { ...withoutCheckpointing, prefixTrees: false }, stored));
  return needed <= AUTO_SHARE * memoryBytes ? "off" : "on";
}
