/**
 * @file How an engine's threads are used. A small model is replicated: each lane is a thread that computes whole sequences alone, so
 * nobody waits for others at the end of every operation and a lane's arrays stay in its core's cache. A large model has one lane,
 * whose operations are wide enough to be split, and one copy of the weights.
 */
import type { ExecutionProvider } from "../../core/contracts/engine.ts";
import type { CheckpointFiles, EngineOptions } from "../../core/ports.ts";
import { type ModelConfig, readModelConfig } from "../checkpoint/config.ts";
import { parameterLayout } from "../checkpoint/parameters.ts";

/** Models with more parameters are not replicated. */
const LARGEST_REPLICA = 32_000_000;

/** What a lane computes with, and on. */
export interface LaneOptions extends EngineOptions {
  readonly provider: ExecutionProvider;
}

/** A GPU is one device, whose operations are as wide as it can take. */
export const laneCount = (config: ModelConfig, { threads, provider = "cpu" }: EngineOptions): number =>
  provider === "cpu" && parameterLayout(config).length <= LARGEST_REPLICA ? threads : 1;

/** The number of lanes, and the options of each. */
export function divide(files: CheckpointFiles, options: LaneOptions): { lanes: number; each: LaneOptions } {
  const lanes = laneCount(readModelConfig(files), options);
  const each = { ...options, threads: options.threads / lanes, slots: Math.ceil(options.slots / lanes) };
  return { lanes, each };
}

/** Deals work to lanes: the longest first, each to the lane with the least so far. A function of the lengths alone. */
export function deal(lengths: readonly number[], lanes: number): number[][] {
  const hands = Array.from({ length: lanes }, () => ({ members: [] as number[], length: 0 }));
  const order = lengths.map((_, i) => i).sort((a, b) => (lengths[b] ?? 0) - (lengths[a] ?? 0) || a - b);
  for (const member of order) {
    const hand = hands.reduce((least, other) => (other.length < least.length ? other : least));
    hand.members.push(member);
    hand.length += lengths[member] ?? 0;
  }
  return hands.map(({ members }) => members);
}
