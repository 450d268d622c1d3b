/**
 * @file Decodes several tokens of every slot in one run (graphs/block.ts), for a device whose arrays cross the bus with every run: the cache
 * goes there once per block. Prefill, and the cache itself, are the decoder's beside it.
 */
import type { ModelConfig } from "../../checkpoint/config.ts";
import { HIDDEN, type RotaryTable, rotaryTable } from "../../model/positions.ts";
import { type Feeds, type GraphSession, tensor } from "../graph-session.ts";
import { initialName, perStepName } from "../graphs/block.ts";
import { cacheNames } from "../graphs/extend.ts";
import { type HostDecoder, MINIMUM_SLOTS } from "./host-decoder.ts";

/** Tokens of a block, at most. */
export const BLOCK = 32;

/** At 0 the first token would be drawn, even if it cannot be. */
const SMALLEST_DRAW = 2 ** -24;

/** A slot that speaks: the token to feed first, the position it goes to, and a draw for each token; below 0: the likeliest. */
export interface Speaker {
  readonly slot: number;
  readonly token: number;
  readonly position: number;
  readonly temperature: number;
  readonly draws: readonly number[];
}

export interface Spoken {
  /** Drawn tokens and their log-probs, one per draw. */
  readonly tokens: Int32Array;
  readonly logProbs: readonly number[];
  /** Puts into the cache what was fed for the first `count` of them. */
  keep(count: number): void;
}

export class BlockDecoder {
  readonly #decoder: HostDecoder;
  readonly #session: GraphSession;
  readonly #config: ModelConfig;
  readonly #weights: Feeds;
  readonly #rotary: RotaryTable;

  constructor(decoder: HostDecoder, session: GraphSession, config: ModelConfig, weights: Feeds, contextTokens: number) {
    this.#decoder = decoder;
    this.#session = session;
    this.#config = config;
    this.#weights = weights;
    this.#rotary = rotaryTable(config, contextTokens + 1);
  }

  /** One for each speaker, whose slots are below `count`. Those with fewer draws than others stop earlier. */
  async speak(speakers: readonly Speaker[], count: number): Promise<Spoken[]> {
    const { cache } = this.#decoder;
    for (const { position, draws } of speakers) cache.reserve(position + draws.length);
    const steps = Math.max(...speakers.map(({ draws }) => draws.length));
    const rows = Math.max(count, MINIMUM_SLOTS);
    const [width, { half }] = [cache.width, this.#rotary];
    const tokens = new Int32Array(rows);
    const inverseTemperature = new Float32Array(rows).fill(1);
    const uniform = new Float32Array(steps * rows).fill(-1);
    const [cos, sin] = [new Float32Array(steps * rows * half), new Float32Array(steps * rows * half)];
    const written = new Float32Array(steps * rows * width);
    const mask = new Float32Array(steps * rows * (width + 1)).fill(HIDDEN);
    // Every row sees its new token: one that saw nothing would have no softmax.
    for (let row = 0; row < steps * rows; row++) mask[row * (width + 1) + width] = 0;
    for (const { slot, token, position, temperature, draws } of speakers) {
      tokens[slot] = token;
      inverseTemperature[slot] = 1 / temperature;
      draws.forEach((draw, step) => {
        const [row, at] = [step * rows + slot, position + step];
        uniform[row] = draw < 0 ? draw : Math.max(draw, SMALLEST_DRAW);
        cos.set(this.#rotary.cos.subarray(at * half, (at + 1) * half), row * half);
        sin.set(this.#rotary.sin.subarray(at * half, (at + 1) * half), row * half);
        mask.fill(0, row * (width + 1), row * (width + 1) + at);
        written[row * width + at] = 1;
      });
    }
    const carried = Object.entries({ ...cache.first(rows), tokens: tensor(tokens, [rows, 1]) });
    const outputs = await this.#session.tensors(
      { batch: rows, tokens: 1, cached: width, seen: width + 1 },
      {
        ...this.#weights,
        ...Object.fromEntries(carried.map(([name, value]) => [initialName(name), value])),
        steps: tensor(BigInt64Array.of(BigInt(steps)), []),
        last: tensor(
          BigInt64Array.from({ length: rows }, (_, row) => BigInt(row)),
          [rows],
        ),
        inverseTemperature: tensor(inverseTemperature, [rows, 1]),
        [perStepName("uniform")]: tensor(uniform, [steps, rows, 1]),
        [perStepName("cos")]: tensor(cos, [steps, rows, 1, half]),
        [perStepName("sin")]: tensor(sin, [steps, rows, 1, half]),
        [perStepName("mask")]: tensor(mask, [steps, rows, 1, 1, 1, width + 1]),
        [perStepName("written")]: tensor(written, [steps, rows, 1, 1, width]),
      },
    );
    return speakers.map((speaker) => this.#spoken(speaker, rows, outputs));
  }

  #spoken({ slot, position, draws }: Speaker, rows: number, outputs: Feeds): Spoken {
    const dataOf = (name: string) => outputs[perStepName(name)]?.data as Float32Array | Int32Array;
    const column = (name: string) => draws.map((_, step) => dataOf(name)[step * rows + slot] as number);
    return {
      tokens: Int32Array.from(column("drawn")),
      logProbs: column("probability").map((p) => Math.min(0, Math.log(p))),
      keep: (count) => {
        for (let step = 0; step < count; step++) {
          this.#decoder.cache.write(slot, position + step, this.#newRows(step, rows, dataOf), slot, 1, 1);
        }
      },
    };
  }

  /** What one step adds to the cache. */
  #newRows(step: number, rows: number, dataOf: (name: string) => Float32Array | Int32Array) {
    const { layers, kvHeads, headWidth } = this.#config;
    const size = rows * kvHeads * headWidth;
    const names = Array.from({ length: layers }, (_, layer) => cacheNames(layer));
    return Object.fromEntries(
      names
        .flatMap(({ newKeys, newValues }) => [newKeys, newValues])
        .map((name) => [name, dataOf(name).subarray(step * size, (step + 1) * size) as Float32Array]),
    );
  }
}
