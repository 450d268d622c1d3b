/** @file One sample request, while it waits for a slot and while it generates. */
import type { Sample, SampleRequest } from "../../../core/ports.ts";
import { prefixStateOf, type SlotEntry } from "./kv-cache-slots.ts";
import type { PrefixStates } from "./prefix-states.ts";

/** An unanswered request. */
export interface PendingSample {
  readonly request: SampleRequest;
  /** Number of sequences that began before the request's; lower values are admitted first. */
  readonly arrival: number;
  /** Maximum number of tokens to generate, at least 1. */
  readonly limit: number;
  readonly resolve: (sample: Sample) => void;
  readonly reject: (error: unknown) => void;
}

/** A request that holds a slot. Its last token is pending: it enters the cache when the next one is drawn. */
export interface Generation {
  readonly sample: PendingSample;
  readonly entry: SlotEntry;
  readonly uniform: () => number;
  readonly tokens: number[];
  readonly logProbs: number[];
  /** Finished or canceled. */
  isDone: boolean;
}

/** Which distribution a generation's next token is drawn from. */
export interface NextDistribution {
  /** The prefix state after the pending token enters the cache. */
  readonly state: number;
  /** Key in the prefix cache: state and temperature. */
  readonly key: string;
}

/** Generations with the same next distribution: one decode serves all. The leader has the lowest slot, which it most likely keeps. */
export interface DecodeGroup {
  readonly next: NextDistribution;
  readonly generations: [leader: Generation, ...Generation[]];
}

/** The token that is not in the cache yet. */
export const pendingToken = ({ sample, tokens }: Generation): number =>
  tokens.at(-1) ?? sample.request.tokens.at(-1) ?? 0;

/** The temperature to predict at: 1 for greedy sampling, which reports log-probs at 1. */
export const temperatureOf = ({ sample }: Generation): number => sample.request.sampling.temperature || 1;

export const isGreedy = ({ sample }: Generation): boolean => sample.request.sampling.temperature === 0;

/** Whether sampling uses the full distribution or its argmax: the only modes that block decoding supports. */
export function isUntruncated(generation: Generation): boolean {
  const { topK, topP } = generation.sample.request.sampling;
  return isGreedy(generation) || (topK === 0 && topP === 1);
}

export function nextDistribution(generation: Generation, states: PrefixStates): NextDistribution {
  const state = states.after(prefixStateOf(generation.entry), "decoded", [pendingToken(generation)]);
  return { state, key: `${state} ${temperatureOf(generation)}` };
}

export function groupByDistribution(
  undecoded: readonly { readonly generation: Generation; readonly next: NextDistribution }[],
): DecodeGroup[] {
  const groups = new Map<string, DecodeGroup>();
  for (const { generation, next } of undecoded.toSorted((a, b) => a.generation.entry.slot - b.generation.entry.slot)) {
    const group = groups.get(next.key);
    if (group) group.generations.push(generation);
    else groups.set(next.key, { next, generations: [generation] });
  }
  return [...groups.values()];
}
