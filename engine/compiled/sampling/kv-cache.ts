/**
 * @file The key/value cache: per layer one array of keys [slot, KV, hd, C] and one of values [slot, KV, C, hd]; the graph reads them where they
 * lie, and new rows are written here. C, the cache width, grows in steps as the longest sequence does; slots lie one after the other, so the first ones are a view.
 * A sequence that must leave its slot is parked as a compact copy.
 */
import type { ModelConfig } from "../../checkpoint/config.ts";
import { type Feeds, tensor } from "../graph-session.ts";
import { cacheNames } from "../graphs/extend.ts";

const GRAIN = 64;
const FEW = 16;

/** Of sequences of at most so many tokens; while it widens, the narrower one is there too. */
export function kvCacheBytes(
  { layers, kvHeads, headWidth }: ModelConfig,
  slots: number,
  contextTokens: number,
): number {
  const width = maximumCacheWidth(contextTokens);
  return 4 * 2 * layers * kvHeads * headWidth * slots * (width + Math.max(0, width - GRAIN));
}

export const maximumCacheWidth = (contextTokens: number) => Math.ceil((contextTokens + 1) / GRAIN) * GRAIN;

/** One sequence's keys and values, [KV, hd, n] and [KV, n, hd] per layer. */
export interface ParkedKv {
  readonly tokens: number;
  readonly arrays: readonly Float32Array[];
}

export class KvCache {
  readonly #config: ModelConfig;
  readonly #slots: number;
  readonly #limit: number;
  #width = GRAIN;
  /** keys of layer 0, values of layer 0, keys of layer 1, ... */
  #arrays: Float32Array[];
  /** Of the first so many slots. */
  readonly #views = new Map<number, Feeds>();

  constructor(config: ModelConfig, slots: number, contextTokens: number) {
    this.#config = config;
    this.#slots = slots;
    this.#limit = maximumCacheWidth(contextTokens);
    this.#arrays = this.#allocate(this.#width);
  }

  get width(): number {
    return this.#width;
  }

  /** Makes room for sequences of so many tokens and one more. True: the width changed, and with it every view. */
  reserve(tokens: number): boolean {
    if (tokens < this.#width) return false;
    const width = Math.min(this.#limit, Math.ceil((tokens + 1) / GRAIN) * GRAIN);
    const wider = this.#allocate(width);
    this.#arrays.forEach((from, index) => {
      const to = { array: wider[index] as Float32Array, width, slot: 0 };
      this.#copy(index, { array: from, width: this.#width, slot: 0 }, to, this.#slots, this.#width);
    });
    this.#arrays = wider;
    this.#width = width;
    this.#views.clear();
    return true;
  }

  /** Feeds of the first `count` slots. */
  first(count: number): Feeds {
    const known = this.#views.get(count);
    if (known) return known;
    const { kvHeads, headWidth } = this.#config;
    const feeds: Feeds = {};
    for (let layer = 0; layer < this.#config.layers; layer++) {
      const name = cacheNames(layer);
      const view = (index: number, dims: number[]) =>
        tensor((this.#arrays[index] as Float32Array).subarray(0, count * this.#slotLength), [count, ...dims]);
      feeds[name.keys] = view(2 * layer, [kvHeads, headWidth, this.#width]);
      feeds[name.values] = view(2 * layer + 1, [kvHeads, this.#width, headWidth]);
    }
    this.#views.set(count, feeds);
    return feeds;
  }

  /** Copies of some slots' caches, one after the other, as narrow as their tokens allow. */
  gather(pieces: readonly { readonly slot: number; readonly position: number }[]): { feeds: Feeds; width: number } {
    const { kvHeads, headWidth } = this.#config;
    const width = Math.ceil(Math.max(1, ...pieces.map(({ position }) => position)) / GRAIN) * GRAIN;
    const feeds: Feeds = {};
    this.#arrays.forEach((array, index) => {
      const copy = new Float32Array(pieces.length * kvHeads * headWidth * width);
      pieces.forEach(({ slot, position }, row) => {
        this.#copy(index, { array, width: this.#width, slot }, { array: copy, width, slot: row }, 1, position);
      });
      const name = cacheNames(index >> 1);
      if (index % 2 === 0) feeds[name.keys] = tensor(copy, [pieces.length, kvHeads, headWidth, width]);
      else feeds[name.values] = tensor(copy, [pieces.length, kvHeads, width, headWidth]);
    });
    return { feeds, width };
  }

  /** Puts the first `tokens` of the `stride` new keys and values in the graph's row `row` into a slot from `position` on. */
  write(
    slot: number,
    position: number,
    outputs: Record<string, Float32Array>,
    row: number,
    stride: number,
    tokens: number,
  ): void {
    const { layers, kvHeads, headWidth } = this.#config;
    const width = this.#width;
    const [from, to] = [row * kvHeads * headWidth, slot * kvHeads * headWidth];
    for (let layer = 0; layer < layers; layer++) {
      const name = cacheNames(layer);
      const newKeys = outputs[name.newKeys] as Float32Array;
      const newValues = outputs[name.newValues] as Float32Array;
      const keys = this.#arrays[2 * layer] as Float32Array;
      const values = this.#arrays[2 * layer + 1] as Float32Array;
      for (let i = 0; i < kvHeads * headWidth; i++) {
        for (let t = 0; t < tokens; t++)
          keys[(to + i) * width + position + t] = newKeys[(from + i) * stride + t] as number;
      }
      for (let head = 0; head < kvHeads; head++) {
        const source = (from + head * headWidth) * stride;
        const target = (to + head * headWidth) * width + position * headWidth;
        // Of one token there is less to copy than a view of it would cost.
        if (tokens === 1) for (let i = 0; i < headWidth; i++) values[target + i] = newValues[source + i] as number;
        else values.set(newValues.subarray(source, source + tokens * headWidth), target);
      }
    }
  }

  /** Gives a slot what another holds at positions [begin, end). */
  copy(from: number, to: number, begin: number, end: number): void {
    this.#arrays.forEach((array, index) => {
      const [rows, unit] = this.#rows(index);
      const positions = this.#width * unit;
      const length = (end - begin) * unit;
      for (let row = 0; row < rows; row++) {
        const source = (from * rows + row) * positions + begin * unit;
        const target = (to * rows + row) * positions + begin * unit;
        // Of few numbers there is less to copy than a call costs.
        if (length < FEW) for (let i = 0; i < length; i++) array[target + i] = array[source + i] as number;
        else array.copyWithin(target, source, source + length);
      }
    });
  }

  /** Gives a slot all that another holds. */
  move(from: number, to: number): void {
    for (const array of this.#arrays) this.#copySlot(array, from, array, to);
  }

  /** Two slots trade what they hold. */
  swap(a: number, b: number): void {
    const spare = new Float32Array(this.#slotLength);
    for (const array of this.#arrays) {
      this.#copySlot(array, a, spare, 0);
      this.#copySlot(array, b, array, a);
      this.#copySlot(spare, 0, array, b);
    }
  }

  park(slot: number, tokens: number): ParkedKv {
    const { kvHeads, headWidth } = this.#config;
    const arrays = this.#arrays.map((array, index) => {
      const parked = new Float32Array(kvHeads * headWidth * tokens);
      this.#copy(index, { array, width: this.#width, slot }, { array: parked, width: tokens, slot: 0 }, 1, tokens);
      return parked;
    });
    return { tokens, arrays };
  }

  restore(slot: number, { tokens, arrays }: ParkedKv): void {
    this.reserve(tokens);
    arrays.forEach((parked, index) => {
      const array = this.#arrays[index] as Float32Array;
      this.#copy(index, { array: parked, width: tokens, slot: 0 }, { array, width: this.#width, slot }, 1, tokens);
    });
  }

  #allocate(width: number): Float32Array[] {
    const { layers, kvHeads, headWidth } = this.#config;
    return Array.from({ length: 2 * layers }, () => new Float32Array(this.#slots * kvHeads * headWidth * width));
  }

  /** Numbers that a slot has in each array. */
  get #slotLength(): number {
    return this.#config.kvHeads * this.#config.headWidth * this.#width;
  }

  #copySlot(from: Float32Array, source: number, to: Float32Array, target: number): void {
    const size = this.#slotLength;
    to.set(from.subarray(source * size, (source + 1) * size), target * size);
  }

  /** Keys have a row of C numbers per (head, hd), values one of C * hd per head. */
  #rows(index: number): [rows: number, unit: number] {
    const { kvHeads, headWidth } = this.#config;
    return index % 2 === 0 ? [kvHeads * headWidth, 1] : [kvHeads, headWidth];
  }

  /** Copies the first positions of some slots. */
  #copy(index: number, from: Place, to: Place, slots: number, positions: number): void {
    const [rows, unit] = this.#rows(index);
    for (let row = 0; row < slots * rows; row++) {
      const start = (from.slot * rows + row) * from.width * unit;
      const target = (to.slot * rows + row) * to.width * unit;
      to.array.set(from.array.subarray(start, start + positions * unit), target);
    }
  }
}

/** From a slot on in an array of a cache width. */
interface Place {
  readonly array: Float32Array;
  readonly width: number;
  readonly slot: number;
}
