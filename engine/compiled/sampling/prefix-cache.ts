/**
 * @file Prefix cache: next-token distributions by prefix state and temperature. Rollouts of one question share a prefix: the lower
 * the policy's entropy, the longer. Each draws from a kept distribution with its own random stream, instead of decoding a row of its own.
 */

/** Memory limit for all distributions. */
const CAPACITY_BYTES = 2 ** 24;
/** With room for fewer entries (a vocabulary above 8,192) the cache is off: copying costs more than the few hits save. */
const MINIMUM_ENTRIES = 512;
/** Rows per allocation: few large arrays are cheaper for the garbage collector. */
const BLOCK_ROWS = 64;

export class PrefixCache {
  readonly #vocabulary: number;
  readonly #capacity: number;
  readonly #blocks: Float32Array[] = [];
  /** Row of each key, the oldest first. */
  readonly #rows = new Map<string, number>();

  constructor(vocabulary: number) {
    this.#vocabulary = vocabulary;
    const capacity = Math.floor(CAPACITY_BYTES / (4 * vocabulary));
    this.#capacity = capacity < MINIMUM_ENTRIES ? 0 : capacity;
  }

  /** A view, valid until the entry is evicted (first in, first out). */
  get(key: string): Float32Array | undefined {
    const row = this.#rows.get(key);
    return row === undefined ? undefined : this.#view(row);
  }

  /** Stores a copy. */
  set(key: string, probabilities: Float32Array): void {
    if (this.#capacity === 0) return;
    const row = this.#rows.get(key) ?? this.#freeRow();
    this.#view(row).set(probabilities);
    this.#rows.set(key, row);
  }

  #freeRow(): number {
    const [oldest] = this.#rows;
    if (!oldest || this.#rows.size < this.#capacity) return this.#rows.size;
    const [key, row] = oldest;
    this.#rows.delete(key);
    return row;
  }

  #view(row: number): Float32Array {
    const block = Math.floor(row / BLOCK_ROWS);
    this.#blocks[block] ??= new Float32Array(BLOCK_ROWS * this.#vocabulary);
    const start = (row % BLOCK_ROWS) * this.#vocabulary;
    return this.#blocks[block].subarray(start, start + this.#vocabulary);
  }
}
