/**
 * @file How an engine uses its threads. A small model is replicated: each lane is a thread that computes whole sequences alone, so it waits for
 * no other thread after each operation, and its arrays stay in its core's cache. A large model is trained in one lane, whose operations are large
 * enough to be split over the threads, and sampled in one or several (spare-memory.ts).
 */
import type { ExecutionProvider } from "../../core/contracts/engine.ts";
import type { EngineOptions } from "../../core/ports.ts";
import type { ModelConfig } from "../checkpoint/config.ts";
import { parameterLayout } from "../checkpoint/parameters.ts";
import type { QuantizedBase } from "./quantization/quantized-base.ts";

/** Models with more parameters are large: each is trained in one lane. */
const MAXIMUM_REPLICA_PARAMETERS = 32_000_000;

/** Engine options with the provider and packing resolved; `optionsOfLane` turns those of the engine into those of a lane. */
export interface LaneOptions extends EngineOptions {
  readonly provider: ExecutionProvider;
  /** The resolved `weightPacking`. Absent: false. */
  readonly packsWeights?: boolean;
  /** The quantized base that `quantization` asks for. Absent: none. */
  readonly quantized?: QuantizedBase;
  /** Whether matrix products read the quantized codes, as in the sampler. Absent: they read dequantized weights. */
  readonly multipliesCodes?: boolean;
}

/** Lanes of a trainer, and of a small model's sampler. A GPU always has one: its operations fill the device. */
export const laneCount = (config: ModelConfig, { threads, provider = "cpu" }: EngineOptions): number =>
  provider === "cpu" && parameterLayout(config).length <= MAXIMUM_REPLICA_PARAMETERS ? threads : 1;

/** The options of each of several lanes. @param lanes a divisor of `options.threads`. */
export const optionsOfLane = (options: LaneOptions, lanes: number): LaneOptions => ({
  ...options,
  threads: options.threads / lanes,
  slots: Math.ceil(options.slots / lanes),
});

/** All lanes, or none: if one fails to open, the others are closed, since the caller never gets them. */
export async function allOrNone<T extends { close(): Promise<void> }>(opening: readonly Promise<T>[]): Promise<T[]> {
  try {
    return await Promise.all(opening);
  } catch (error) {
    for (const lane of opening) lane.then((opened) => opened.close()).catch(() => {});
    throw error;
  }
}

/** Assigns work to lanes: the longest first, each to the lane with the least work so far. Depends on the lengths alone. */
export function assignToLanes(lengths: readonly number[], lanes: number): number[][] {
  const loads = Array.from({ length: lanes }, () => ({ members: [] as number[], length: 0 }));
  const order = lengths.map((_, i) => i).sort((a, b) => (lengths[b] ?? 0) - (lengths[a] ?? 0) || a - b);
  for (const member of order) {
    const load = loads.reduce((least, other) => (other.length < least.length ? other : least));
    load.members.push(member);
    load.length += lengths[member] ?? 0;
  }
  return loads.map(({ members }) => members);
}
