/**
 * @file What followed from a state is kept for those who come to it later: rollouts of a question say the same for a while, and the surer
 * their policy the longer. Each draws for itself, from a distribution that was computed once.
 */

/** Of all distributions that are kept; */
const BYTES = 2 ** 24;
/** where they are so long that fewer than this could be, none are: copying them costs more than is found again. */
const FEWEST = 512;
/** Room is made for so many at a time: arrays that come and go are what the collector counts. */
const ROWS = 64;

export class PrefixCache {
  readonly #vocabulary: number;
  readonly #most: number;
  readonly #room: Float32Array[] = [];
  /** Where each lies, the oldest first. */
  readonly #places = new Map<string, number>();

  constructor(vocabulary: number) {
    this.#vocabulary = vocabulary;
    const most = Math.floor(BYTES / (4 * vocabulary));
    this.#most = most < FEWEST ? 0 : most;
  }

  /** A view, until so many others have been put there that it is the oldest. */
  get(key: string): Float32Array | undefined {
    const place = this.#places.get(key);
    return place === undefined ? undefined : this.#row(place);
  }

  /** Keeps a copy. */
  put(key: string, probabilities: Float32Array): void {
    if (this.#most === 0) return;
    const place = this.#places.get(key) ?? this.#freePlace();
    this.#places.set(key, place);
    this.#row(place).set(probabilities);
  }

  #freePlace(): number {
    if (this.#places.size < this.#most) return this.#places.size;
    const [first] = this.#places;
    const [oldest, place] = first as [string, number];
    this.#places.delete(oldest);
    return place;
  }

  #row(place: number): Float32Array {
    const block = Math.floor(place / ROWS);
    this.#room[block] ??= new Float32Array(ROWS * this.#vocabulary);
    const from = (place % ROWS) * this.#vocabulary;
    return this.#room[block].subarray(from, from + this.#vocabulary);
  }
}
