/**
 * @file How a worker uses spare memory. A sampler packs its weights: it reorders them once for the products that read them, which costs a copy,
 * in float32 or in quantized codes. Only weights that never change are packed (a base under an adapter), and only for sampling: a training
 * product has many rows, and gains nothing. With what is left, a sampler packs a copy for each of several lanes, and then a trainer keeps
 * activations instead of recomputing them: the first gains more time, in less memory. The choices depend on the machine's memory and never on
 * how much memory is free, so that a resumed run makes the same ones and gets the same bits.
 */
import { totalmem } from "node:os";
import { LARGE_FILE_BYTES } from "../../core/checkpoint-source.ts";
import type { LoraConfig } from "../../core/contracts/lora.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { EngineOptions } from "../../core/ports.ts";
import type { ModelConfig } from "../checkpoint/config.ts";
import { laneCount } from "./lanes.ts";
import { computesWhole, planMemory, type ResolvedOptions, totalBytes } from "./memory.ts";
import type { StoredWeights } from "./open-weights.ts";
import { bitsOf } from "./quantization/quantized-base.ts";

/**
 * `auto` packs or keeps activations, and lanes are added, only if a worker then needs at most this share of the machine's memory: a team of two
 * and its evaluation worker leave a quarter free, as does a worker that has the machine to itself.
 */
const AUTO_SHARE = { shared: 1 / 4, dedicated: 3 / 4 };

/**
 * A decoding step reads all weights, and each lane reads its own copy: below this many rows per lane, lanes in float32 wait for memory. Quantized
 * weights are a fraction of the size.
 */
const MINIMUM_LANE_SLOTS = { float32: 16, quantized: 4 };

/** What a worker does with the machine's memory: each `auto` resolved. */
export interface SpareMemoryUse {
  readonly weightPacking: "on" | "off";
  readonly gradientCheckpointing: "on" | "off";
  /** Lanes of a sampler; with packing on, each has a packed copy of the weights. They do not affect the bits of a sample. */
  readonly samplingLanes: number;
}

/** @throws MgrpoError `config-invalid` if packing is on but impossible. */
export function useSpareMemory(
  config: ModelConfig,
  lora: LoraConfig | null,
  options: EngineOptions,
  stored: StoredWeights,
  memoryBytes: number = machineBytes(),
): SpareMemoryUse {
  const weightPacking = resolveWeightPacking(config, lora, options, stored, memoryBytes);
  const packed = { ...options, weightPacking };
  const samplingLanes = chooseSamplingLanes(config, lora, packed, stored, memoryBytes);
  const sampled = { ...packed, samplingLanes };
  const gradientCheckpointing = resolveGradientCheckpointing(config, lora, sampled, stored, memoryBytes);
  return { weightPacking, gradientCheckpointing, samplingLanes };
}

/**
 * For a large model with packed weights: the most lanes that divide the threads evenly, have enough slots each, and fit in memory. A lane's
 * threads work together on every operation, so fewer threads per lane wait for each other less. For any other model: as many as a trainer has.
 * @param options with `weightPacking` resolved.
 */
export function chooseSamplingLanes(
  config: ModelConfig,
  lora: LoraConfig | null,
  options: EngineOptions,
  stored: StoredWeights,
  memoryBytes: number = machineBytes(),
): number {
  const { threads, slots, weightPacking } = options;
  const lanes = laneCount(config, options);
  if (lanes > 1 || weightPacking !== "on") return lanes;
  const minimum = bitsOf(options.quantization) ? MINIMUM_LANE_SLOTS.quantized : MINIMUM_LANE_SLOTS.float32;
  const resolved = {
    ...options,
    gradientCheckpointing: options.gradientCheckpointing === "off" ? "off" : "on",
  } as const;
  const fits = (samplingLanes: number) => fitsIn(memoryBytes, config, lora, { ...resolved, samplingLanes }, stored);
  const divisors = Array.from({ length: threads }, (_, i) => threads - i).filter((count) => threads % count === 0);
  return divisors.find((count) => count > 1 && slots / count >= minimum && fits(count)) ?? 1;
}

/**
 * Whether a worker needs at most its `AUTO_SHARE` of the memory. The estimate includes prefix trees whatever the setting: packing affects bits, so
 * a run that resumes without trees must make the same choice.
 */
function fitsIn(
  memoryBytes: number,
  config: ModelConfig,
  lora: LoraConfig | null,
  options: ResolvedOptions,
  stored: StoredWeights,
): boolean {
  const share = AUTO_SHARE[options.dedicated ? "dedicated" : "shared"];
  return totalBytes(planMemory(config, lora, { ...options, prefixTrees: true }, stored)) <= share * memoryBytes;
}

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
  const packed = { ...options, weightPacking: "on", gradientCheckpointing: "on" } as const;
  return fitsIn(memoryBytes, config, lora, packed, stored) ? "on" : "off";
}

function obstacleTo(lora: LoraConfig | null, provider: string, { mapped }: StoredWeights): string | undefined {
  if (!lora) return "only a frozen base is packed, and without lora all weights are trained";
  if (provider === "webgpu" || provider === "cuda") return `a GPU (${provider}) has a layout of its own`;
  const mebibytes = LARGE_FILE_BYTES / 2 ** 20;
  return mapped
    ? undefined
    : `the base is not memory-mapped, which requires aligned tensors in files above ${mebibytes} MiB on disk`;
}

/**
 * `off` keeps the outputs of linear layers that the backward pass reads. Full training in one graph (memory.ts) keeps all activations.
 * @param options with `weightPacking` and `samplingLanes` resolved.
 */
export function resolveGradientCheckpointing(
  config: ModelConfig,
  lora: LoraConfig | null,
  options: ResolvedOptions,
  stored: StoredWeights,
  memoryBytes: number = machineBytes(),
): "on" | "off" {
  const { gradientCheckpointing = "auto", provider = "cpu" } = options;
  if (gradientCheckpointing !== "auto") return gradientCheckpointing;
  const withoutCheckpointing = { ...options, gradientCheckpointing: "off" } as const;
  if (!lora && computesWhole(config, withoutCheckpointing)) return "off";
  // On a GPU, the kept outputs would cross the bus.
  if (provider !== "cpu") return "on";
  return fitsIn(memoryBytes, config, lora, withoutCheckpointing, stored) ? "off" : "on";
}
