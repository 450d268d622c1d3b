/**
 * @file Prefix states: ids for the contents of a sequence's KV cache. On the CPU, a cache's bits depend only on its tokens and on how each was
 * computed, so two caches with the same state are interchangeable and give the same next-token distribution.
 */

/** Prefilled in one chunk, decoded one token at a time, or decoded in a block: the three round differently. */
export type ComputePath = "prefilled" | "decoded" | "block-decoded";

/** The state of an empty cache; also marks positions inside a chunk, which have no state. */
export const EMPTY_STATE = 0;
/** Maximum number of transitions kept. Ids are never reused, so dropping transitions only loses sharing. */
const MAXIMUM_TRANSITIONS = 50_000;

export class PrefixStates {
  readonly #transitions = new Map<string, number>();
  #last = EMPTY_STATE;

  /** The state after appending `tokens` to a cache in state `before`. */
  after(before: number, path: ComputePath, tokens: readonly number[]): number {
    const key = `${before} ${path} ${tokens.join()}`;
    const known = this.#transitions.get(key);
    if (known !== undefined) return known;
    if (this.#transitions.size === MAXIMUM_TRANSITIONS) this.#transitions.clear();
    this.#transitions.set(key, ++this.#last);
    return this.#last;
  }
}
