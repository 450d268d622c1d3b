/**
 * @file Decodes several tokens for every slot in one run (graphs/block.ts), for a provider that copies its inputs to the device on every
 * run: the KV cache is copied once per block instead of once per token. The cache is the host decoder's, which also prefills it.
 */
import type { ModelConfig } from "../../checkpoint/config.ts";
import { MASK_VALUE, type RotaryTable, rotaryTable } from "../../model/positions.ts";
import { logProbOf } from "../../model/token-sampling.ts";
import { type Feeds, type GraphSession, tensor } from "../graph-session.ts";
import { initialName, perStepName } from "../graphs/block.ts";
import { cacheNames } from "../graphs/extend.ts";
import type { KvCache } from "./kv-cache.ts";
import { MINIMUM_SLOTS } from "./slot-decoder.ts";

/** Maximum tokens per block. */
export const BLOCK_TOKENS = 32;

/** A draw of exactly 0 would select the first token even at probability 0. */
const MINIMUM_DRAW = 2 ** -24;

/** A slot's input to a block: its pending token and position, and one uniform draw per token; a draw below 0 takes the argmax. */
export interface BlockRow {
  readonly slot: number;
  readonly token: number;
  readonly position: number;
  readonly temperature: number;
  readonly draws: readonly number[];
}

export interface BlockOutput {
  /** Drawn tokens and their log-probs, one per draw. */
  readonly tokens: Int32Array;
  readonly logProbs: readonly number[];
  /** Writes the keys and values of the first `count` steps into the cache. */
  keep(count: number): void;
}

type OutputData = (name: string) => Float32Array | Int32Array;

export class BlockDecoder {
  readonly #cache: KvCache;
  readonly #session: GraphSession;
  readonly #config: ModelConfig;
  readonly #weights: Feeds;
  readonly #rotary: RotaryTable;

  constructor(cache: KvCache, session: GraphSession, config: ModelConfig, weights: Feeds, contextTokens: number) {
    this.#cache = cache;
    this.#session = session;
    this.#config = config;
    this.#weights = weights;
    this.#rotary = rotaryTable(config, contextTokens + 1);
  }

  /** One output per input row; all slots are below `count`. A row with fewer draws gets fewer tokens. */
  async decode(inputs: readonly BlockRow[], count: number): Promise<BlockOutput[]> {
    for (const { position, draws } of inputs) this.#cache.reserve(position + draws.length);
    const { width } = this.#cache;
    const steps = Math.max(...inputs.map(({ draws }) => draws.length));
    const rows = Math.max(count, MINIMUM_SLOTS);
    const outputs = await this.#session.runToTensors(
      { batch: rows, tokens: 1, cached: width, seen: width + 1 },
      { ...this.#weights, ...this.#initialFeeds(inputs, rows), ...this.#stepFeeds(inputs, steps, rows) },
    );
    // The outputs are float32, except for the drawn tokens, which are int32.
    const dataOf = (name: string) => outputs[perStepName(name)]?.data as Float32Array | Int32Array;
    return inputs.map((input) => this.#outputOf(input, rows, dataOf));
  }

  /** The state before the first step, and the inputs that are constant across steps. */
  #initialFeeds(inputs: readonly BlockRow[], rows: number): Feeds {
    const tokens = new Int32Array(rows);
    const inverseTemperature = new Float32Array(rows).fill(1);
    const everyRow = BigInt64Array.from({ length: rows }, (_, row) => BigInt(row));
    for (const { slot, token, temperature } of inputs) {
      tokens[slot] = token;
      inverseTemperature[slot] = 1 / temperature;
    }
    const carried = Object.entries({ ...this.#cache.firstSlots(rows), tokens: tensor(tokens, [rows, 1]) });
    return {
      ...Object.fromEntries(carried.map(([name, value]) => [initialName(name), value])),
      last: tensor(everyRow, [rows]),
      inverseTemperature: tensor(inverseTemperature, [rows, 1]),
    };
  }

  #stepFeeds(inputs: readonly BlockRow[], steps: number, rows: number): Feeds {
    const [{ width }, { half }] = [this.#cache, this.#rotary];
    const uniform = new Float32Array(steps * rows).fill(-1);
    const [cos, sin] = [new Float32Array(steps * rows * half), new Float32Array(steps * rows * half)];
    const written = new Float32Array(steps * rows * width);
    const mask = new Float32Array(steps * rows * (width + 1)).fill(MASK_VALUE);
    // Every row attends to its new token, so that no softmax is over masked positions only.
    for (let row = 0; row < steps * rows; row++) mask[row * (width + 1) + width] = 0;
    for (const { slot, position, draws } of inputs) {
      for (const [step, draw] of draws.entries()) {
        const [row, at] = [step * rows + slot, position + step];
        uniform[row] = draw < 0 ? draw : Math.max(draw, MINIMUM_DRAW);
        cos.set(this.#rotary.cos.subarray(at * half, (at + 1) * half), row * half);
        sin.set(this.#rotary.sin.subarray(at * half, (at + 1) * half), row * half);
        mask.fill(0, row * (width + 1), row * (width + 1) + at);
        written[row * width + at] = 1;
      }
    }
    return {
      steps: tensor(BigInt64Array.of(BigInt(steps)), []),
      [perStepName("uniform")]: tensor(uniform, [steps, rows, 1]),
      [perStepName("cos")]: tensor(cos, [steps, rows, 1, half]),
      [perStepName("sin")]: tensor(sin, [steps, rows, 1, half]),
      [perStepName("mask")]: tensor(mask, [steps, rows, 1, 1, 1, width + 1]),
      [perStepName("written")]: tensor(written, [steps, rows, 1, 1, width]),
    };
  }

  #outputOf({ slot, position, draws }: BlockRow, rows: number, dataOf: OutputData): BlockOutput {
    const column = (name: string) => draws.map((_, step) => dataOf(name)[step * rows + slot] as number);
    return {
      tokens: Int32Array.from(column("drawn")),
      logProbs: column("probability").map(logProbOf),
      keep: (count) => {
        for (let step = 0; step < count; step++) {
          this.#cache.write(slot, position + step, this.#newRows(step, rows, dataOf), slot, 1, 1);
        }
      },
    };
  }

  /** The keys and values that one step adds to the cache. */
  #newRows(step: number, rows: number, dataOf: OutputData): Record<string, Float32Array> {
    const { layers, kvHeads, headWidth } = this.#config;
    const size = rows * kvHeads * headWidth;
    const newRows: Record<string, Float32Array> = {};
    for (let layer = 0; layer < layers; layer++) {
      const { newKeys, newValues } = cacheNames(layer);
      for (const name of [newKeys, newValues]) {
        newRows[name] = dataOf(name).subarray(step * size, (step + 1) * size) as Float32Array;
      }
    }
    return newRows;
  }
}
