/**
 * @file The decoder whose KV cache stays on the device (WebGPU). A run sends tokens, angles, masks and slots, and only probabilities come back;
 * weights are uploaded once. The cache is as wide as the context from the start, and every run returns it in new arrays.
 */
import type { ModelConfig } from "../../checkpoint/config.ts";
import { type RotaryTable, rotaryTable } from "../../model/positions.ts";
import { type Feeds, type GraphSession, requireOutput, tensor } from "../graph-session.ts";
import { cacheNames } from "../graphs/extend.ts";
import { updatedCacheName } from "../graphs/extend-on-device.ts";
import { DeviceSlotOrder } from "./device-slots.ts";
import { ExtendInputs } from "./extend-inputs.ts";
import { maximumCacheWidth } from "./kv-cache.ts";
import { MINIMUM_SLOTS, MINIMUM_TOKENS, type PrefillChunk, prefillBatches, type SlotDecoder } from "./slot-decoder.ts";

/** New tokens for a slot, and the temperature for the prediction after the last one. */
interface ExtendRow extends PrefillChunk {
  readonly temperature: number;
}

export class DeviceDecoder implements SlotDecoder {
  readonly cache: DeviceSlotOrder;
  readonly #session: GraphSession;
  readonly #config: ModelConfig;
  readonly #weights: Feeds;
  readonly #rotary: RotaryTable;
  readonly #width: number;
  #caches: Feeds;
  #placed: (ExtendRow | undefined)[] = [];

  /** Takes ownership of `weights`. On WebGPU they must already be on the device. */
  constructor(session: GraphSession, config: ModelConfig, weights: Feeds, slots: number, contextTokens: number) {
    this.cache = new DeviceSlotOrder(slots);
    this.#session = session;
    this.#config = config;
    this.#weights = weights;
    this.#rotary = rotaryTable(config, contextTokens + 1);
    this.#width = maximumCacheWidth(contextTokens);
    this.#caches = this.#emptyCaches(slots);
  }

  async prefill(chunks: readonly PrefillChunk[]): Promise<void> {
    for (const batch of prefillBatches(chunks)) {
      const rows = batch.map((chunk) => ({ ...chunk, temperature: 1 }));
      await this.#extend(rows, MINIMUM_TOKENS);
    }
  }

  place(slot: number, token: number, position: number, temperature: number): void {
    this.#placed[slot] = { slot, position, tokens: [token], temperature };
  }

  async decode(count: number): Promise<Float32Array> {
    const rows = Array.from({ length: Math.max(count, MINIMUM_SLOTS) }, (_, slot) => this.#placed[slot]);
    this.#placed = [];
    return this.#extend(rows);
  }

  close(): void {
    for (const tensor of [...Object.values(this.#caches), ...Object.values(this.#weights)]) tensor.dispose();
  }

  /** Returns probabilities [rows, V]. Undefined rows are padding: they read slot 0 and write nothing. */
  async #extend(rows: readonly (ExtendRow | undefined)[], minimumTokens = 1): Promise<Float32Array> {
    const count = Math.max(minimumTokens, ...rows.map((row) => row?.tokens.length ?? 1));
    const { probabilities, ...updated } = await this.#session.runToTensors(
      {
        batch: rows.length,
        tokens: count,
        cached: this.#width,
        seen: this.#width + count,
        rows: this.cache.slots,
      },
      { ...this.#weights, ...this.#caches, ...this.#rowFeeds(rows, count), ...this.#writeFeeds(rows, count) },
    );
    const previous = this.#caches;
    this.#caches = Object.fromEntries(
      Object.keys(previous).map((name) => [name, requireOutput(updated, updatedCacheName(name))]),
    );
    this.cache.resetOrder();
    for (const cache of Object.values(previous)) cache.dispose();
    // Probabilities are a float32 output that does not stay on the device.
    return requireOutput({ probabilities }, "probabilities").data as Float32Array;
  }

  /** What each row reads: its tokens, the slot whose cache it attends to, and the row and temperature to predict from. */
  #rowFeeds(rows: readonly (ExtendRow | undefined)[], count: number): Feeds {
    const batch = rows.length;
    const inputs = new ExtendInputs(this.#rotary, batch, count, this.#width);
    const { order } = this.cache;
    const slots = new Int32Array(batch);
    const last = new BigInt64Array(batch);
    const inverseTemperature = new Float32Array(batch).fill(1);
    for (const [b, row] of rows.entries()) {
      const { slot, position, tokens, temperature } = row ?? { slot: 0, position: 0, tokens: [0], temperature: 1 };
      inputs.setRow(b, position, tokens);
      slots[b] = order[slot] as number;
      last[b] = BigInt(b * count + tokens.length - 1);
      inverseTemperature[b] = 1 / temperature;
    }
    return {
      ...inputs.feeds(),
      slots: tensor(slots, [batch]),
      order: tensor(order, [order.length]),
      last: tensor(last, [batch]),
      inverseTemperature: tensor(inverseTemperature, [batch, 1]),
    };
  }

  /** Where the new rows go: for each position of each slot, whether it is written and with which of the B * T rows. */
  #writeFeeds(rows: readonly (ExtendRow | undefined)[], count: number): Feeds {
    const [width, { slots }] = [this.#width, this.cache];
    const [source, written] = [new Int32Array(slots * width), new Float32Array(slots * width)];
    for (const [b, row] of rows.entries()) {
      if (!row) continue;
      for (let t = 0; t < row.tokens.length; t++) {
        const target = row.slot * width + row.position + t;
        source[target] = b * count + t;
        written[target] = 1;
      }
    }
    return { source: tensor(source, [slots, width]), written: tensor(written, [slots, width]) };
  }

  /** On the host: the first run moves them to the device. */
  #emptyCaches(slots: number): Feeds {
    const { layers, kvHeads, headWidth } = this.#config;
    const size = slots * kvHeads * headWidth * this.#width;
    const caches: Feeds = {};
    for (let layer = 0; layer < layers; layer++) {
      const { keys, values } = cacheNames(layer);
      caches[keys] = tensor(new Float32Array(size), [slots, kvHeads, headWidth, this.#width]);
      caches[values] = tensor(new Float32Array(size), [slots, kvHeads, this.#width, headWidth]);
    }
    return caches;
  }
}
