/**
 * @file What followed from a state is kept for those who come to it later: rollouts of a question say the same for a while, and the surer
 * their policy the longer. Each draws for itself, from a distribution that was computed once.
 */

/** Of all distributions that are kept; */
const BYTES = 2 ** 24;
/** where they are so long that fewer than this could be, none are: copying them costs more than is found again. */
const FEWEST = 512;

export class Recall {
  readonly #most: number;
  /** The oldest first. */
  readonly #rows = new Map<string, Float32Array>();

  constructor(vocabulary: number) {
    const most = Math.floor(BYTES / (4 * vocabulary));
    this.#most = most < FEWEST ? 0 : most;
  }

  get(key: string): Float32Array | undefined {
    return this.#rows.get(key);
  }

  /** Keeps a copy. */
  put(key: string, probabilities: Float32Array): void {
    if (this.#most === 0) return;
    this.#rows.set(key, probabilities.slice());
    if (this.#rows.size <= this.#most) return;
    const [oldest] = this.#rows.keys();
    this.#rows.delete(oldest as string);
  }
}
