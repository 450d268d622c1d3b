/**
 * @file The decoder whose KV cache is in host memory: runs the extend graph on chunks for some slots (prefill) or on one token for each of
 * the lowest slots (decode). A decode writes only to the caches of slots that `place` has set.
 */
import type { ModelConfig } from "../../checkpoint/config.ts";
import { MASK_VALUE, type RotaryTable, rotaryTable } from "../../model/positions.ts";
import { type Feeds, type GraphSession, tensor } from "../graph-session.ts";
import { cacheNames } from "../graphs/extend.ts";
import { ExtendInputs } from "./extend-inputs.ts";
import { KvCache } from "./kv-cache.ts";
import {
  MINIMUM_SLOTS,
  MINIMUM_TOKENS,
  type PrefillChunk,
  paddedRows,
  prefillBatches,
  type SlotDecoder,
} from "./slot-decoder.ts";

/** A slot's input to the next decode. */
interface DecodeRow {
  readonly token: number;
  readonly position: number;
  readonly temperature: number;
}

export class HostDecoder implements SlotDecoder {
  readonly cache: KvCache;
  readonly #session: GraphSession;
  readonly #weights: Feeds;
  readonly #rotary: RotaryTable;
  readonly #inputs: DecodeInputs;
  readonly #outputs: DecodeOutputs;
  readonly #isQuantized: boolean;
  /** By slot. */
  #placed = new Map<number, DecodeRow>();

  constructor(
    session: GraphSession,
    config: ModelConfig,
    weights: Feeds,
    slots: number,
    contextTokens: number,
    isQuantized = false,
  ) {
    this.#session = session;
    this.#weights = weights;
    this.#isQuantized = isQuantized;
    this.#rotary = rotaryTable(config, contextTokens + 1);
    const rows = this.#rowsFor(slots);
    this.cache = new KvCache(config, rows, contextTokens);
    this.#inputs = new DecodeInputs(this.#rotary, rows, this.cache.width);
    this.#outputs = new DecodeOutputs(config, rows);
  }

  async prefill(chunks: readonly PrefillChunk[]): Promise<void> {
    for (const batch of prefillBatches(chunks)) await this.#prefillBatch(batch);
  }

  async #prefillBatch(chunks: readonly PrefillChunk[]): Promise<void> {
    for (const { position, tokens } of chunks) this.cache.reserve(position + tokens.length);
    const rows = chunks.length;
    const longest = Math.max(MINIMUM_TOKENS, ...chunks.map(({ tokens }) => tokens.length));
    const count = this.#isQuantized ? paddedRows(longest) : longest;
    const gathered = this.cache.gather(chunks);
    const inputs = new ExtendInputs(this.#rotary, rows, count, gathered.width);
    for (const [row, { position, tokens }] of chunks.entries()) inputs.setRow(row, position, tokens);
    const outputs = await this.#session.run(
      { batch: rows, tokens: count, cached: gathered.width, seen: gathered.width + count },
      {
        ...this.#weights,
        ...gathered.feeds,
        ...inputs.feeds(),
        last: tensor(new BigInt64Array(rows), [rows]),
        inverseTemperature: tensor(new Float32Array(rows).fill(1), [rows, 1]),
      },
    );
    for (const [row, { slot, position, tokens }] of chunks.entries()) {
      this.cache.write(slot, position, outputs, row, count, tokens.length);
    }
  }

  place(slot: number, token: number, position: number, temperature: number): void {
    this.#placed.set(slot, { token, position, temperature });
  }

  async decode(count: number): Promise<Float32Array> {
    const placed = this.#placed;
    // Cleared even if this decode fails: by the next decode, other sequences may have these slots.
    this.#placed = new Map();
    for (const { position } of placed.values()) this.cache.reserve(position + 1);
    const { width } = this.cache;
    this.#inputs.fit(width);
    for (const [slot, input] of placed) this.#inputs.set(slot, input);
    const rows = this.#rowsFor(count);
    const outputs = await this.#session.run(
      { batch: rows, tokens: 1, cached: width, seen: width + 1 },
      { ...this.#weights, ...this.cache.firstSlots(rows), ...this.#inputs.feeds(rows) },
      this.#outputs.feeds(rows),
    );
    for (const [slot, { position }] of placed) this.cache.write(slot, position, outputs, slot, 1, 1);
    return this.#outputs.probabilities;
  }

  close(): void {}

  /** Rows of a decode of `count` slots. */
  #rowsFor(count: number): number {
    const rows = Math.max(count, MINIMUM_SLOTS);
    return this.#isQuantized ? paddedRows(rows) : rows;
  }
}

/** Inputs of a decode, one token per slot; the arrays are reused across decodes. */
class DecodeInputs {
  readonly #rotary: RotaryTable;
  readonly #slots: number;
  readonly #tokens: Int32Array;
  readonly #cos: Float32Array;
  readonly #sin: Float32Array;
  readonly #inverseTemperature: Float32Array;
  readonly #last: BigInt64Array;
  /** [slots, C + 1]: the cached positions that each slot attends to, and its new token. */
  #mask: Float32Array;
  /** For each slot, the number of cached positions that its mask exposes. */
  readonly #visible: Int32Array;
  #width: number;

  constructor(rotary: RotaryTable, slots: number, width: number) {
    this.#rotary = rotary;
    this.#slots = slots;
    this.#tokens = new Int32Array(slots);
    this.#cos = new Float32Array(slots * rotary.half);
    this.#sin = new Float32Array(slots * rotary.half);
    this.#inverseTemperature = new Float32Array(slots).fill(1);
    this.#last = BigInt64Array.from({ length: slots }, (_, row) => BigInt(row));
    this.#visible = new Int32Array(slots);
    this.#width = width;
    this.#mask = this.#newMask(width);
  }

  set(slot: number, { token, position, temperature }: DecodeRow): void {
    const { half, cos, sin } = this.#rotary;
    this.#tokens[slot] = token;
    this.#cos.set(cos.subarray(position * half, (position + 1) * half), slot * half);
    this.#sin.set(sin.subarray(position * half, (position + 1) * half), slot * half);
    this.#inverseTemperature[slot] = 1 / temperature;
    this.#show(slot, position);
  }

  /** Widens the mask with the cache. */
  fit(width: number): void {
    if (width === this.#width) return;
    this.#mask = this.#newMask(width);
    this.#width = width;
  }

  /** Views of the first `rows` slots. */
  feeds(rows: number): Feeds {
    const first = (array: Float32Array, size: number, dims: number[]) =>
      tensor(array.subarray(0, rows * size), [rows, ...dims]);
    const { half } = this.#rotary;
    const seen = this.#width + 1;
    return {
      tokens: tensor(this.#tokens.subarray(0, rows), [rows, 1]),
      cos: first(this.#cos, half, [1, half]),
      sin: first(this.#sin, half, [1, half]),
      mask: first(this.#mask, seen, [1, 1, 1, seen]),
      last: tensor(this.#last.subarray(0, rows), [rows]),
      inverseTemperature: first(this.#inverseTemperature, 1, [1]),
    };
  }

  #show(slot: number, positions: number): void {
    const before = this.#visible[slot] ?? 0;
    const row = slot * (this.#width + 1);
    if (positions < before) this.#mask.fill(MASK_VALUE, row + positions, row + before);
    else this.#mask.fill(0, row + before, row + positions);
    this.#visible[slot] = positions;
  }

  /** Unmasks each slot's visible positions and its new token. */
  #newMask(width: number): Float32Array {
    const seen = width + 1;
    const mask = new Float32Array(this.#slots * seen).fill(MASK_VALUE);
    this.#visible.forEach((positions, slot) => {
      mask.fill(0, slot * seen, slot * seen + positions);
      mask[slot * seen + seen - 1] = 0;
    });
    return mask;
  }
}

/** Where a decode writes. The arrays are reused, since fresh outputs for every token would keep the garbage collector busy. */
class DecodeOutputs {
  readonly #config: ModelConfig;
  /** [slots, V] */
  readonly probabilities: Float32Array;
  /** New keys of layer 0, new values of layer 0, new keys of layer 1, ... of every slot. */
  readonly #newRows: readonly Float32Array[];
  /** Views of the first n slots, by n. */
  readonly #views = new Map<number, Feeds>();

  constructor(config: ModelConfig, slots: number) {
    const { layers, kvHeads, headWidth, vocabulary } = config;
    this.#config = config;
    this.probabilities = new Float32Array(slots * vocabulary);
    this.#newRows = Array.from({ length: 2 * layers }, () => new Float32Array(slots * kvHeads * headWidth));
  }

  feeds(rows: number): Feeds {
    const known = this.#views.get(rows);
    if (known) return known;
    const { layers, kvHeads, headWidth, vocabulary } = this.#config;
    const feeds: Feeds = {
      probabilities: tensor(this.probabilities.subarray(0, rows * vocabulary), [rows, vocabulary]),
    };
    for (let layer = 0; layer < layers; layer++) {
      const { newKeys, newValues } = cacheNames(layer);
      const view = (index: number) => (this.#newRows[index] as Float32Array).subarray(0, rows * kvHeads * headWidth);
      feeds[newKeys] = tensor(view(2 * layer), [rows, kvHeads, headWidth, 1]);
      feeds[newValues] = tensor(view(2 * layer + 1), [rows, kvHeads, 1, headWidth]);
    }
    this.#views.set(rows, feeds);
    return feeds;
  }
}
