/**
 * @file Fills the caches of conversations before they speak. What one cache holds, another is given as a copy: rollouts of a question share
 * its prompt, all questions the system message and the tools, and those that did the same so far the response they got.
 *
 * A cache's bits depend on the tokens and on how they were cut into pieces. Pieces begin where a turn begins and are CHUNK long, whoever
 * else is there; and only whole pieces are copied, from a cache that was cut alike up to their end (states.ts). So a copy has
 * the bits that computing would have given.
 */
import type { PrefillChunk } from "./host-decoder.ts";
import { hold, type SlotEntry, stateOf, withState } from "./kv-cache-slots.ts";
import type { PrefixStates } from "./prefix-states.ts";

/** Tokens of a piece, at most. */
const CHUNK = 256;

/** A conversation, and all that its cache is to hold. */
export interface Filling {
  readonly resident: SlotEntry;
  readonly tokens: readonly number[];
}

export interface Filler {
  /** Gives a slot what another holds at positions [begin, end); before them they hold the same. */
  readonly cache: { copy(from: number, to: number, begin: number, end: number): void };
  prefill(pieces: readonly PrefillChunk[]): Promise<void>;
}

/** Ends when every cache holds its tokens. `known` are all caches that can be copied from, those to be filled among them. */
export async function prefill(
  fillings: readonly Filling[],
  known: readonly SlotEntry[],
  states: PrefixStates,
  decoder: Filler,
): Promise<void> {
  let left = fillings;
  while (true) {
    for (const filling of left) copyPieces(filling, known, states, decoder.cache);
    left = left.filter(unfinished);
    if (left.length === 0) return;
    // One computes for all who need the same; the others copy from it when it is done.
    const next = left.map((filling) => nextState(filling, states));
    const first = left.filter((_, i) => next.indexOf(next[i] as number) === i);
    await decoder.prefill(first.map(nextPiece));
    for (const filling of first) hold(filling.resident, tokensOf(filling), nextState(filling, states));
  }
}

function copyPieces(filling: Filling, known: readonly SlotEntry[], states: PrefixStates, cache: Filler["cache"]): void {
  const { resident } = filling;
  while (unfinished(filling)) {
    const state = nextState(filling, states);
    const source = withState(known, state, end(filling));
    if (!source) return;
    cache.copy(source.slot, resident.slot, resident.tokens.length, end(filling));
    hold(resident, tokensOf(filling), state);
  }
}

const unfinished = ({ resident, tokens }: Filling) => resident.tokens.length < tokens.length;

/** Where the next piece ends. */
const end = ({ resident, tokens }: Filling) => Math.min(resident.tokens.length + CHUNK, tokens.length);

const tokensOf = (filling: Filling) => filling.tokens.slice(filling.resident.tokens.length, end(filling));

/** The cache's name when it holds the next piece. */
const nextState = (filling: Filling, states: PrefixStates) =>
  states.after(stateOf(filling.resident), "prefilled", tokensOf(filling));

const nextPiece = (filling: Filling): PrefillChunk => ({
  slot: filling.resident.slot,
  position: filling.resident.tokens.length,
  tokens: tokensOf(filling),
});
