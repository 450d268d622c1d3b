/** @file Tokens, rotary angles and mask of the extend graph for R rows of T new tokens over a cache of C positions. */
import { MASK_VALUE, type RotaryTable } from "../../model/positions.ts";
import { type Feeds, tensor } from "../graph-session.ts";

export class ExtendInputs {
  readonly #rotary: RotaryTable;
  readonly #rows: number;
  readonly #tokens: number;
  readonly #width: number;
  readonly #ids: Int32Array;
  readonly #cos: Float32Array;
  readonly #sin: Float32Array;
  /** [R, T, C + T] */
  readonly #mask: Float32Array;

  constructor(rotary: RotaryTable, rows: number, tokens: number, width: number) {
    this.#rotary = rotary;
    this.#rows = rows;
    this.#tokens = tokens;
    this.#width = width;
    this.#ids = new Int32Array(rows * tokens);
    this.#cos = new Float32Array(rows * tokens * rotary.half);
    this.#sin = new Float32Array(rows * tokens * rotary.half);
    this.#mask = new Float32Array(rows * tokens * (width + tokens)).fill(MASK_VALUE);
  }

  /** Sets the tokens of row `row`, starting at `position`. */
  setRow(row: number, position: number, tokens: readonly number[]): void {
    const { cos, sin, half } = this.#rotary;
    const [begin, end] = [position * half, (position + tokens.length) * half];
    const first = row * this.#tokens;
    this.#ids.set(tokens, first);
    this.#cos.set(cos.subarray(begin, end), first * half);
    this.#sin.set(sin.subarray(begin, end), first * half);
    // Padding attends causally like any token, so that no softmax is over masked positions only.
    for (let t = 0; t < this.#tokens; t++) {
      const start = (first + t) * (this.#width + this.#tokens);
      this.#mask.fill(0, start, start + position);
      this.#mask.fill(0, start + this.#width, start + this.#width + t + 1);
    }
  }

  feeds(): Feeds {
    const [rows, tokens, { half }] = [this.#rows, this.#tokens, this.#rotary];
    return {
      tokens: tensor(this.#ids, [rows, tokens]),
      cos: tensor(this.#cos, [rows, tokens, half]),
      sin: tensor(this.#sin, [rows, tokens, half]),
      mask: tensor(this.#mask, [rows, 1, 1, tokens, this.#width + tokens]),
    };
  }
}
