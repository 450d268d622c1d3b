/**
 * @file Runs the extend graph: a chunk of one slot's new tokens (prefill), or one token of each slot in a run of slots (decode).
 * Only slots that have a token placed write to their cache.
 */
import type { ModelConfig } from "../checkpoint/config.ts";
import { EMBEDDING, type Layout, views } from "../checkpoint/parameters.ts";
import { HIDDEN, type RotaryTable, rotaryTable } from "../model/positions.ts";
import { Cache } from "./cache.ts";
import { parameterTensors } from "./graphs/weights.ts";
import { type Feeds, type Session, tensor } from "./session.ts";

/** Prefill at most so many tokens in one call. */
const CHUNK = 256;

export class Decoder {
  readonly cache: Cache;
  readonly #session: Session;
  readonly #config: ModelConfig;
  readonly #weights: Feeds;
  readonly #embedding: Float32Array;
  readonly #rotary: RotaryTable;
  readonly #slots: number;
  /** [slots, C + 1]: which cached positions each slot sees when decoding, and the new token. */
  #mask: Float32Array;
  /** Positions that each row of the mask shows. */
  readonly #shown: Int32Array;
  /** Slots with a token for the next decode, and its position. */
  readonly #placed = new Map<number, number>();
  readonly #inverseTemperature: Float32Array;
  readonly #embedded: Float32Array;
  readonly #cos: Float32Array;
  readonly #sin: Float32Array;

  constructor(
    session: Session,
    config: ModelConfig,
    layout: Layout,
    weights: Float32Array,
    slots: number,
    contextTokens: number,
  ) {
    this.#session = session;
    this.#config = config;
    this.#weights = parameterTensors(config, layout, weights);
    this.#embedding = views(layout, weights).get(EMBEDDING) ?? new Float32Array();
    this.#rotary = rotaryTable(config, contextTokens + 1);
    this.#slots = slots;
    this.cache = new Cache(config, slots, contextTokens);
    this.#shown = new Int32Array(slots);
    this.#mask = this.#hideAll();
    this.#inverseTemperature = new Float32Array(slots).fill(1);
    this.#embedded = new Float32Array(slots * config.width);
    this.#cos = new Float32Array(slots * this.#rotary.half);
    this.#sin = new Float32Array(slots * this.#rotary.half);
  }

  /** Writes tokens into a slot's cache from `position` on. */
  async prefill(slot: number, position: number, tokens: readonly number[]): Promise<void> {
    for (let at = 0; at < tokens.length; at += CHUNK) {
      await this.#prefillChunk(slot, position + at, tokens.slice(at, at + CHUNK));
    }
  }

  async #prefillChunk(slot: number, position: number, tokens: readonly number[]): Promise<void> {
    this.cache.reserve(position + tokens.length);
    const { width, half } = { width: this.cache.width, half: this.#rotary.half };
    const count = tokens.length;
    const embedded = new Float32Array(count * this.#config.width);
    const seen = width + count;
    const mask = new Float32Array(count * seen);
    tokens.forEach((token, t) => {
      embedded.set(this.#row(token), t * this.#config.width);
      mask.fill(HIDDEN, t * seen + position, t * seen + width);
      mask.fill(HIDDEN, t * seen + width + t + 1, (t + 1) * seen);
    });
    const angles = (table: Float32Array) =>
      tensor(table.subarray(position * half, (position + count) * half), [1, count, half]);
    const outputs = await this.#session.run(
      { batch: 1, tokens: count, cached: width, seen },
      {
        ...this.#weights,
        ...this.cache.range(slot, slot + 1),
        embedded: tensor(embedded, [1, count, this.#config.width]),
        cos: angles(this.#rotary.cos),
        sin: angles(this.#rotary.sin),
        mask: tensor(mask, [1, 1, 1, count, seen]),
        last: tensor(BigInt64Array.of(BigInt(count - 1)), [1]),
        inverseTemperature: tensor(Float32Array.of(1), [1, 1]),
      },
    );
    this.cache.write(slot, position, outputs, 0, count);
  }

  /** Says what a slot contributes to the next decode: its pending token at its position, and the temperature to predict at. */
  place(slot: number, token: number, position: number, temperature: number): void {
    const { half, cos, sin } = this.#rotary;
    this.cache.reserve(position + 1);
    this.#embedded.set(this.#row(token), slot * this.#config.width);
    this.#cos.set(cos.subarray(position * half, (position + 1) * half), slot * half);
    this.#sin.set(sin.subarray(position * half, (position + 1) * half), slot * half);
    this.#inverseTemperature[slot] = 1 / temperature;
    this.#show(slot, position);
    this.#placed.set(slot, position);
  }

  /** One token of every placed slot, all of them within [from, to): probabilities [to - from, V]. */
  async decode(from: number, to: number): Promise<Float32Array> {
    const width = this.cache.width;
    this.#fitMask(width);
    const rows = to - from;
    const { half } = this.#rotary;
    const part = (array: Float32Array, size: number, dims: number[]) =>
      tensor(array.subarray(from * size, to * size), [rows, ...dims]);
    const outputs = await this.#session.run(
      { batch: rows, tokens: 1, cached: width, seen: width + 1 },
      {
        ...this.#weights,
        ...this.cache.range(from, to),
        embedded: part(this.#embedded, this.#config.width, [1, this.#config.width]),
        cos: part(this.#cos, half, [1, half]),
        sin: part(this.#sin, half, [1, half]),
        mask: part(this.#mask, width + 1, [1, 1, 1, width + 1]),
        last: tensor(
          BigInt64Array.from({ length: rows }, (_, i) => BigInt(i)),
          [rows],
        ),
        inverseTemperature: part(this.#inverseTemperature, 1, [1]),
      },
    );
    for (const [slot, position] of this.#placed) this.cache.write(slot, position, outputs, slot - from, 1);
    this.#placed.clear();
    return outputs["probabilities"] as Float32Array;
  }

  #row(token: number): Float32Array {
    return this.#embedding.subarray(token * this.#config.width, (token + 1) * this.#config.width);
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
