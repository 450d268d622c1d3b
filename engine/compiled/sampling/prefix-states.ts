/**
 * @file Names of what a cache holds. Its bits depend on its tokens and on how they came into it, and on nothing else: of two caches with one
 * name, either may be copied for the other, and what follows from one follows from the other.
 */

/** Prefilled in one piece, decoded one at a time, or spoken in a block of several: other graphs, other bits. */
export type ComputePath = "prefilled" | "decoded" | "spoken";

/** The name of an empty cache. */
export const EMPTY_STATE = 0;
/** Remembered at a time: a name is never given twice, so who forgets finds less to share, and nothing that is wrong. */
const MOST = 50_000;

export class PrefixStates {
  readonly #names = new Map<string, number>();
  #last = EMPTY_STATE;

  /** The name of a cache of that name with these tokens added. */
  after(before: number, how: ComputePath, tokens: readonly number[]): number {
    const what = `${before} ${how} ${tokens.join()}`;
    const known = this.#names.get(what);
    if (known !== undefined) return known;
    if (this.#names.size === MOST) this.#names.clear();
    this.#names.set(what, ++this.#last);
    return this.#last;
  }
}
