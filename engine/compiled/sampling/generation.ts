/** @file One request that a sampler serves, and what it has said so far. */
import type { Sample, SampleRequest } from "../../../core/ports.ts";
import { type SlotEntry, stateOf } from "./kv-cache-slots.ts";
import type { PrefixStates } from "./prefix-states.ts";

export interface Turn {
  readonly request: SampleRequest;
  /** How many conversations had begun before its own. */
  readonly rank: number;
  readonly uniform: () => number;
  readonly tokens: number[];
  readonly logProbs: number[];
  readonly limit: number;
  readonly answer: (sample: Sample) => void;
  readonly fail: (error: unknown) => void;
  resident: SlotEntry | undefined;
  cancelled: boolean;
}

/** One that has a slot. */
export type Speaking = Turn & { resident: SlotEntry };

/** Where a turn's next token comes from. */
export interface Next {
  /** The cache's name with the token in it that is not there yet. */
  readonly state: number;
  /** Names what follows, at the turn's temperature. */
  readonly key: string;
}

export function nextOf({ resident, request, tokens }: Speaking, states: PrefixStates): Next {
  const state = states.after(stateOf(resident), "decoded", [lastOf(request, tokens)]);
  return { state, key: `${state} ${request.sampling.temperature || 1}` };
}

/** Those whose next distribution is the same. The first one computes it: it has the lowest slot, which it most likely keeps. */
export interface Alike {
  readonly next: Next;
  readonly turns: [Speaking, ...Speaking[]];
}

export function alike(waiting: readonly { readonly turn: Speaking; readonly next: Next }[]): Alike[] {
  const groups = new Map<string, Alike>();
  for (const { turn, next } of waiting.toSorted((a, b) => a.turn.resident.slot - b.turn.resident.slot)) {
    const known = groups.get(next.key);
    if (known) known.turns.push(turn);
    else groups.set(next.key, { next, turns: [turn] });
  }
  return [...groups.values()];
}

/** Of the whole distribution, or the likeliest. */
export const drawsPlainly = ({ request: { sampling } }: Turn) =>
  sampling.temperature === 0 || (sampling.topK === 0 && sampling.topP === 1);

/** The token that is not in the cache yet. */
export const lastOf = (request: SampleRequest, tokens: readonly number[]) =>
  tokens.at(-1) ?? request.tokens.at(-1) ?? 0;
