/**
 * @file The KV cache in host memory: per layer one array of keys [slot, KV, hd, C] and one of values [slot, KV, C, hd]. A decode reads them in
 * place, a prefill reads copies; both write their new rows here. C, the cache width, grows in steps with the longest
 * sequence. Slots are contiguous, so the first n are a view. A sequence that loses its slot is parked as a compact
 * copy.
 */
import type { ModelConfig } from "../../checkpoint/config.ts";
import { type Feeds, tensor } from "../graph-session.ts";
import { cacheNames } from "../graphs/extend.ts";
import type { ParkedKv, PrefillChunk, SlotStorage } from "./slot-decoder.ts";

/** The cache width grows in multiples of this. */
const WIDTH_STEP = 64;
/** Elements below which a loop is faster than `copyWithin`. */
const SMALL_COPY = 16;

/** Peak bytes of a cache for sequences of `contextTokens`: while an array is being widened, its narrower copy also exists. */
export function kvCacheBytes(
  { layers, kvHeads, headWidth }: ModelConfig,
  slots: number,
  contextTokens: number,
): number {
  const width = maximumCacheWidth(contextTokens);
  return 4 * kvHeads * headWidth * slots * (2 * layers * width + Math.max(0, width - WIDTH_STEP));
}

export const maximumCacheWidth = (contextTokens: number) => Math.ceil((contextTokens + 1) / WIDTH_STEP) * WIDTH_STEP;

export class KvCache implements SlotStorage {
  readonly #config: ModelConfig;
  readonly #slots: number;
  readonly #limit: number;
  #width = WIDTH_STEP;
  /** keys of layer 0, values of layer 0, keys of layer 1, ... */
  readonly #arrays: Float32Array[];
  /** Feeds of the first n slots, by n. */
  readonly #views = new Map<number, Feeds>();

  constructor(config: ModelConfig, slots: number, contextTokens: number) {
    this.#config = config;
    this.#slots = slots;
    this.#limit = maximumCacheWidth(contextTokens);
    this.#arrays = Array.from({ length: 2 * config.layers }, () => this.#allocate(this.#width));
  }

  get width(): number {
    return this.#width;
  }

  /** Makes room for sequences of `tokens` + 1 tokens. Widening invalidates every view. If it fails, all arrays keep their width. */
  reserve(tokens: number): void {
    if (tokens < this.#width) return;
    const width = Math.min(this.#limit, Math.ceil((tokens + 1) / WIDTH_STEP) * WIDTH_STEP);
    this.#views.clear();
    let widened = 0;
    try {
      // One array at a time, so that only one exists twice.
      for (const [index, from] of this.#arrays.entries()) {
        const to = { array: this.#allocate(width), width, slot: 0 };
        this.#copy(index, { array: from, width: this.#width, slot: 0 }, to, this.#slots, this.#width);
        this.#arrays[index] = to.array;
        widened++;
      }
    } catch (error) {
      for (let index = 0; index < widened; index++) this.#narrow(index, width);
      throw error;
    }
    this.#width = width;
  }

  /** Restores the width of an array that is `width` wide. In place: no row moves to a later position. */
  #narrow(index: number, width: number): void {
    const array = this.#arrays[index] as Float32Array;
    this.#copy(index, { array, width, slot: 0 }, { array, width: this.#width, slot: 0 }, this.#slots, this.#width);
    this.#arrays[index] = array.subarray(0, this.#slots * this.#slotLength);
  }

  /** Views of the first `count` slots. */
  firstSlots(count: number): Feeds {
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

  /** Copies of the chunks' slots, one row each, as narrow as their cached tokens allow. */
  gather(chunks: readonly PrefillChunk[]): { feeds: Feeds; width: number } {
    const { kvHeads, headWidth } = this.#config;
    const width = Math.ceil(Math.max(1, ...chunks.map(({ position }) => position)) / WIDTH_STEP) * WIDTH_STEP;
    const feeds: Feeds = {};
    this.#arrays.forEach((array, index) => {
      const copy = new Float32Array(chunks.length * kvHeads * headWidth * width);
      chunks.forEach(({ slot, position }, row) => {
        this.#copy(index, { array, width: this.#width, slot }, { array: copy, width, slot: row }, 1, position);
      });
      const name = cacheNames(index >> 1);
      if (index % 2 === 0) feeds[name.keys] = tensor(copy, [chunks.length, kvHeads, headWidth, width]);
      else feeds[name.values] = tensor(copy, [chunks.length, kvHeads, width, headWidth]);
    });
    return { feeds, width };
  }

  /** Writes keys and values of a graph's outputs into a slot, from `position` on: the first `tokens` of the `stride` tokens that row `row` has. */
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
        // For a single token, copying is cheaper than creating a view.
        if (tokens === 1) for (let i = 0; i < headWidth; i++) values[target + i] = newValues[source + i] as number;
        else values.set(newValues.subarray(source, source + tokens * headWidth), target);
      }
    }
  }

  copy(from: number, to: number, begin: number, end: number): void {
    this.#arrays.forEach((array, index) => {
      const [rows, unit] = this.#rows(index);
      const positions = this.#width * unit;
      const length = (end - begin) * unit;
      for (let row = 0; row < rows; row++) {
        const source = (from * rows + row) * positions + begin * unit;
        const target = (to * rows + row) * positions + begin * unit;
        if (length < SMALL_COPY) for (let i = 0; i < length; i++) array[target + i] = array[source + i] as number;
        else array.copyWithin(target, source, source + length);
      }
    });
  }

  copyAll(from: number, to: number): void {
    for (const array of this.#arrays) this.#copySlot(array, from, array, to);
  }

  swap(a: number, b: number): void {
    const buffer = new Float32Array(this.#slotLength);
    for (const array of this.#arrays) {
      this.#copySlot(array, a, buffer, 0);
      this.#copySlot(array, b, array, a);
      this.#copySlot(buffer, 0, array, b);
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

  #allocate(width: number): Float32Array {
    const { kvHeads, headWidth } = this.#config;
    return new Float32Array(this.#slots * kvHeads * headWidth * width);
  }

  /** Elements of one slot in each array. */
  get #slotLength(): number {
    return this.#config.kvHeads * this.#config.headWidth * this.#width;
  }

  #copySlot(from: Float32Array, source: number, to: Float32Array, target: number): void {
    const size = this.#slotLength;
    to.set(from.subarray(source * size, (source + 1) * size), target * size);
  }

  /** Keys have one row of C elements per (head, hd), values one row of C * hd per head. */
  #rows(index: number): [rows: number, unit: number] {
    const { kvHeads, headWidth } = this.#config;
    return index % 2 === 0 ? [kvHeads * headWidth, 1] : [kvHeads, headWidth];
  }

  /** Copies the first positions of `slots` slots. */
  #copy(index: number, from: SlotRange, to: SlotRange, slots: number, positions: number): void {
    const [rows, unit] = this.#rows(index);
    for (let row = 0; row < slots * rows; row++) {
      const start = (from.slot * rows + row) * from.width * unit;
      const target = (to.slot * rows + row) * to.width * unit;
      to.array.set(from.array.subarray(start, start + positions * unit), target);
    }
  }
}

/** The part of an array from `slot` on; `width` is that array's cache width. */
interface SlotRange {
  readonly array: Float32Array;
  readonly width: number;
  readonly slot: number;
}
