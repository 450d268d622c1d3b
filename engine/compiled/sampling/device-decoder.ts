/**
 * @file The decoder whose cache stays on the device (WebGPU): what crosses the bus is tokens, positions and masks one way, and probabilities
 * the other. Weights are taken there once. The cache is as wide as the context from the start, and every run writes it anew.
 */
import type { ModelConfig } from "../../checkpoint/config.ts";
import { HIDDEN, type RotaryTable, rotaryTable } from "../../model/positions.ts";
import { type Feeds, type GraphSession, tensor } from "../graph-session.ts";
import { cacheNames } from "../graphs/extend.ts";
import { updatedCacheName } from "../graphs/extend-on-device.ts";
import { DeviceSlotOrder } from "./device-slots.ts";
import { MINIMUM_SLOTS, MINIMUM_TOKENS, type PrefillChunk, prefillBatches } from "./host-decoder.ts";
import { maximumCacheWidth } from "./kv-cache.ts";

/** New tokens of a slot, and the temperature to predict at after the last one. */
interface Row extends PrefillChunk {
  readonly temperature: number;
}

export class DeviceDecoder {
  readonly cache: DeviceSlotOrder;
  readonly #session: GraphSession;
  readonly #config: ModelConfig;
  readonly #weights: Feeds;
  readonly #rotary: RotaryTable;
  readonly #width: number;
  #caches: Feeds;
  #placed: (Row | undefined)[] = [];

  /** `weights` lie on the device, and are this decoder's to dispose of. */
  constructor(session: GraphSession, config: ModelConfig, weights: Feeds, slots: number, contextTokens: number) {
    this.cache = new DeviceSlotOrder(slots);
    this.#session = session;
    this.#config = config;
    this.#weights = weights;
    this.#rotary = rotaryTable(config, contextTokens + 1);
    this.#width = maximumCacheWidth(contextTokens);
    this.#caches = this.#empty(slots);
  }

  /** As Decoder's. */
  async prefill(pieces: readonly PrefillChunk[]): Promise<void> {
    for (const batch of prefillBatches(pieces)) {
      const rows = batch.map((piece) => ({ ...piece, temperature: 1 }));
      await this.#extend(rows, MINIMUM_TOKENS);
    }
  }

  /** As Decoder's. */
  place(slot: number, token: number, position: number, temperature: number): void {
    this.#placed[slot] = { slot, position, tokens: [token], temperature };
  }

  /** As Decoder's. */
  async decode(count: number): Promise<Float32Array> {
    const rows = Array.from({ length: Math.max(count, MINIMUM_SLOTS) }, (_, slot) => this.#placed[slot]);
    this.#placed = [];
    return this.#extend(rows);
  }

  close(): void {
    for (const held of [...Object.values(this.#caches), ...Object.values(this.#weights)]) held.dispose();
  }

  /** A row without tokens reads slot 0, writes nothing, and predicts what nobody asks for. Returns probabilities [rows, V]. */
  async #extend(rows: readonly (Row | undefined)[], fewest = 1): Promise<Float32Array> {
    const batch = rows.length;
    const [width, { half }] = [this.#width, this.#rotary];
    const count = Math.max(fewest, ...rows.map((row) => row?.tokens.length ?? 1));
    const { slots: slotCount } = this.cache;
    const seen = width + count;
    const order = this.cache.takeOrder();
    const ids = new Int32Array(batch * count);
    const [cos, sin] = [new Float32Array(batch * count * half), new Float32Array(batch * count * half)];
    const mask = new Float32Array(batch * count * seen).fill(HIDDEN);
    const slots = new Int32Array(batch);
    const last = new BigInt64Array(batch);
    const inverseTemperature = new Float32Array(batch).fill(1);
    const [source, written] = [new Int32Array(slotCount * width), new Float32Array(slotCount * width)];
    rows.forEach((row, b) => {
      const { slot, position, tokens, temperature } = row ?? { slot: 0, position: 0, tokens: [0], temperature: 1 };
      ids.set(tokens, b * count);
      const angles = (table: Float32Array) => table.subarray(position * half, (position + tokens.length) * half);
      cos.set(angles(this.#rotary.cos), b * count * half);
      sin.set(angles(this.#rotary.sin), b * count * half);
      slots[b] = order[slot] as number;
      last[b] = BigInt(b * count + tokens.length - 1);
      inverseTemperature[b] = 1 / temperature;
      for (let t = 0; t < count; t++) {
        const seenBy = (b * count + t) * seen;
        mask.fill(0, seenBy, seenBy + position);
        mask.fill(0, seenBy + width, seenBy + width + t + 1);
        if (!row || t >= tokens.length) continue;
        source[slot * width + position + t] = b * count + t;
        written[slot * width + position + t] = 1;
      }
    });
    const { probabilities, ...next } = await this.#session.tensors(
      { batch, tokens: count, cached: width, seen, rows: slotCount },
      {
        ...this.#weights,
        ...this.#caches,
        tokens: tensor(ids, [batch, count]),
        cos: tensor(cos, [batch, count, half]),
        sin: tensor(sin, [batch, count, half]),
        mask: tensor(mask, [batch, 1, 1, count, seen]),
        last: tensor(last, [batch]),
        inverseTemperature: tensor(inverseTemperature, [batch, 1]),
        slots: tensor(slots, [batch]),
        order: tensor(order, [slotCount]),
        source: tensor(source, [slotCount, width]),
        written: tensor(written, [slotCount, width]),
      },
    );
    const before = this.#caches;
    this.#caches = Object.fromEntries(Object.keys(before).map((name) => [name, held(next, updatedCacheName(name))]));
    for (const old of Object.values(before)) old.dispose();
    return held({ probabilities }, "probabilities").data as Float32Array;
  }

  /** On this side of the bus: the first run takes it over. */
  #empty(slots: number): Feeds {
    const { layers, kvHeads, headWidth } = this.#config;
    const size = slots * kvHeads * headWidth * this.#width;
    return Object.fromEntries(
      Array.from({ length: layers }, (_, layer) => cacheNames(layer)).flatMap(({ keys, values }) => [
        [keys, tensor(new Float32Array(size), [slots, kvHeads, headWidth, this.#width])],
        [values, tensor(new Float32Array(size), [slots, kvHeads, this.#width, headWidth])],
      ]),
    );
  }
}

function held(outputs: Readonly<Record<string, Feeds[string] | undefined>>, name: string): Feeds[string] {
  const output = outputs[name];
  if (!output) throw new Error(`a graph lacks its output ${name}`);
  return output;
}
