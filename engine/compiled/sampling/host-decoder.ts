/**
 * @file Runs the extend graph: new tokens of some slots (prefill), or one token of each of the lowest slots (decode).
 * Only slots that have a token placed write to their cache.
 */
import type { ModelConfig } from "../../checkpoint/config.ts";
import { HIDDEN, type RotaryTable, rotaryTable } from "../../model/positions.ts";
import { type Feeds, type GraphSession, tensor } from "../graph-session.ts";
import { cacheNames } from "../graphs/extend.ts";
import { KvCache } from "./kv-cache.ts";

/** Prefill takes at most so many tokens in one call, padding included, */
const BATCH = 1024;
/** no more of it than computing costs that a call of its own would, */
const PADDING = 96;
/** and never one token alone: a single row would take the path of a matrix-vector product, with other bits. */
export const MINIMUM_TOKENS = 2;
/** The same holds for a decode. */
export const MINIMUM_SLOTS = 2;

/** New tokens of a slot, whose cache holds `position` tokens already. */
export interface PrefillChunk {
  readonly slot: number;
  readonly position: number;
  readonly tokens: readonly number[];
}

export class HostDecoder {
  readonly cache: KvCache;
  readonly #session: GraphSession;
  readonly #weights: Feeds;
  readonly #rotary: RotaryTable;
  readonly #slots: number;
  /** [slots, C + 1]: which cached positions each slot sees when decoding, and the new token. */
  #mask: Float32Array;
  /** Positions that each row of the mask shows. */
  readonly #shown: Int32Array;
  /** Slots with a token for the next decode, and its position. */
  readonly #placed = new Map<number, number>();
  readonly #inverseTemperature: Float32Array;
  readonly #tokens: Int32Array;
  readonly #cos: Float32Array;
  readonly #sin: Float32Array;
  readonly #everyRow: BigInt64Array;
  readonly #probabilities: Float32Array;
  /** Of every slot, keys of layer 0, values of layer 0, keys of layer 1, ...: where a decode writes them. */
  readonly #newRows: readonly Float32Array[];
  /** Where a decode of so many slots writes: views. */
  readonly #outputs = new Map<number, Feeds>();
  readonly #config: ModelConfig;

  constructor(session: GraphSession, config: ModelConfig, weights: Feeds, slots: number, contextTokens: number) {
    this.#session = session;
    this.#weights = weights;
    this.#rotary = rotaryTable(config, contextTokens + 1);
    this.#slots = slots;
    this.cache = new KvCache(config, slots, contextTokens);
    this.#shown = new Int32Array(slots);
    this.#mask = this.#hideAll();
    this.#inverseTemperature = new Float32Array(slots).fill(1);
    this.#tokens = new Int32Array(slots);
    this.#cos = new Float32Array(slots * this.#rotary.half);
    this.#sin = new Float32Array(slots * this.#rotary.half);
    this.#everyRow = BigInt64Array.from({ length: slots }, (_, row) => BigInt(row));
    this.#config = config;
    this.#probabilities = new Float32Array(slots * config.vocabulary);
    const { layers, kvHeads, headWidth } = config;
    this.#newRows = Array.from({ length: 2 * layers }, () => new Float32Array(slots * kvHeads * headWidth));
  }

  /** Writes each slot's tokens into its cache from `position` on, several slots in one call. */
  async prefill(pieces: readonly PrefillChunk[]): Promise<void> {
    for (const batch of prefillBatches(pieces)) await this.#prefillBatch(batch);
  }

  async #prefillBatch(pieces: readonly PrefillChunk[]): Promise<void> {
    for (const { position, tokens } of pieces) this.cache.reserve(position + tokens.length);
    const rows = pieces.length;
    const count = Math.max(MINIMUM_TOKENS, ...pieces.map(({ tokens }) => tokens.length));
    const gathered = this.cache.gather(pieces);
    const seen = gathered.width + count;
    const { half } = this.#rotary;
    const ids = new Int32Array(rows * count);
    const [cos, sin] = [new Float32Array(rows * count * half), new Float32Array(rows * count * half)];
    const mask = new Float32Array(rows * count * seen).fill(HIDDEN);
    pieces.forEach(({ position, tokens }, b) => {
      ids.set(tokens, b * count);
      const angles = (table: Float32Array) => table.subarray(position * half, (position + tokens.length) * half);
      cos.set(angles(this.#rotary.cos), b * count * half);
      sin.set(angles(this.#rotary.sin), b * count * half);
      // Padding after the tokens sees what comes before it, like any token: a row that saw nothing would have no softmax.
      for (let t = 0; t < count; t++) {
        const row = (b * count + t) * seen;
        mask.fill(0, row, row + position);
        mask.fill(0, row + gathered.width, row + gathered.width + t + 1);
      }
    });
    const outputs = await this.#session.run(
      { batch: rows, tokens: count, cached: gathered.width, seen },
      {
        ...this.#weights,
        ...gathered.feeds,
        tokens: tensor(ids, [rows, count]),
        cos: tensor(cos, [rows, count, half]),
        sin: tensor(sin, [rows, count, half]),
        mask: tensor(mask, [rows, 1, 1, count, seen]),
        last: tensor(new BigInt64Array(rows), [rows]),
        inverseTemperature: tensor(new Float32Array(rows).fill(1), [rows, 1]),
      },
    );
    pieces.forEach(({ slot, position, tokens }, b) => {
      this.cache.write(slot, position, outputs, b, count, tokens.length);
    });
  }

  /** Says what a slot contributes to the next decode: its pending token at its position, and the temperature to predict at. */
  place(slot: number, token: number, position: number, temperature: number): void {
    const { half, cos, sin } = this.#rotary;
    this.cache.reserve(position + 1);
    this.#tokens[slot] = token;
    this.#cos.set(cos.subarray(position * half, (position + 1) * half), slot * half);
    this.#sin.set(sin.subarray(position * half, (position + 1) * half), slot * half);
    this.#inverseTemperature[slot] = 1 / temperature;
    this.#show(slot, position);
    this.#placed.set(slot, position);
  }

  /** One token of every placed slot, all of them below `count`: probabilities [count, V], until the next decode. */
  async decode(count: number): Promise<Float32Array> {
    const width = this.cache.width;
    this.#fitMask(width);
    const rows = Math.max(count, MINIMUM_SLOTS);
    const { half } = this.#rotary;
    const part = (array: Float32Array, size: number, dims: number[]) =>
      tensor(array.subarray(0, rows * size), [rows, ...dims]);
    const outputs = await this.#session.run(
      { batch: rows, tokens: 1, cached: width, seen: width + 1 },
      {
        ...this.#weights,
        ...this.cache.first(rows),
        tokens: tensor(this.#tokens.subarray(0, rows), [rows, 1]),
        cos: part(this.#cos, half, [1, half]),
        sin: part(this.#sin, half, [1, half]),
        mask: part(this.#mask, width + 1, [1, 1, 1, width + 1]),
        last: tensor(this.#everyRow.subarray(0, rows), [rows]),
        inverseTemperature: part(this.#inverseTemperature, 1, [1]),
      },
      this.#outputsOf(rows),
    );
    for (const [slot, position] of this.#placed) this.cache.write(slot, position, outputs, slot, 1, 1);
    this.#placed.clear();
    return this.#probabilities;
  }

  /** It holds arrays, and nothing else. */
  close(): void {}

  /** The same arrays for every decode: what the runtime hands over anew the collector has to take away. */
  #outputsOf(rows: number): Feeds {
    const known = this.#outputs.get(rows);
    if (known) return known;
    const { layers, kvHeads, headWidth, vocabulary } = this.#config;
    const outputs: Feeds = {
      probabilities: tensor(this.#probabilities.subarray(0, rows * vocabulary), [rows, vocabulary]),
    };
    for (let layer = 0; layer < layers; layer++) {
      const { newKeys, newValues } = cacheNames(layer);
      const view = (index: number) => (this.#newRows[index] as Float32Array).subarray(0, rows * kvHeads * headWidth);
      outputs[newKeys] = tensor(view(2 * layer), [rows, kvHeads, headWidth, 1]);
      outputs[newValues] = tensor(view(2 * layer + 1), [rows, kvHeads, 1, headWidth]);
    }
    this.#outputs.set(rows, outputs);
    return outputs;
  }

  #show(slot: number, positions: number): void {
    this.#fitMask(this.cache.width);
    const width = this.cache.width;
    const before = this.#shown[slot] ?? 0;
    const row = slot * (width + 1);
    if (positions < before) this.#mask.fill(HIDDEN, row + positions, row + before);
    else this.#mask.fill(0, row + before, row + positions);
    this.#shown[slot] = positions;
  }

  /** The mask follows the cache when it grows. */
  #fitMask(width: number): void {
    if (this.#mask.length === this.#slots * (width + 1)) return;
    this.#mask = this.#hideAll();
    this.#shown.forEach((positions, slot) => {
      this.#mask.fill(0, slot * (width + 1), slot * (width + 1) + positions);
    });
  }

  /** A mask that shows every slot its new token and nothing else. */
  #hideAll(): Float32Array {
    const seen = this.cache.width + 1;
    const mask = new Float32Array(this.#slots * seen).fill(HIDDEN);
    for (let slot = 0; slot < this.#slots; slot++) mask[slot * seen + seen - 1] = 0;
    return mask;
  }
}

/** Pieces of like length together, so that little is padding. */
export function prefillBatches(pieces: readonly PrefillChunk[]): PrefillChunk[][] {
  const cut: PrefillChunk[][] = [];
  let padding = 0;
  for (const piece of [...pieces].sort((a, b) => b.tokens.length - a.tokens.length)) {
    const last = cut.at(-1);
    const longest = last?.[0]?.tokens.length ?? 0;
    padding += longest - piece.tokens.length;
    if (last && padding <= PADDING && (last.length + 1) * longest <= BATCH) last.push(piece);
    else {
      cut.push([piece]);
      padding = 0;
    }
  }
  return cut;
}
