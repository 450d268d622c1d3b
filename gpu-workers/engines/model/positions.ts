/** @file Rotary angles and masks as plain arrays: what depends on positions only, and never on weights. */
import type { ModelConfig } from "../checkpoint/config.ts";

/** Added to the score of a key that must not be seen; exp of it is exactly 0. */
export const HIDDEN = -1e30;

export interface RotaryTable {
  /** [positions, hd / 2], row after row. */
  readonly cos: Float32Array;
  readonly sin: Float32Array;
  /** hd / 2 */
  readonly half: number;
}

/** Angle of position p and pair i: p / theta^(2i / hd). */
export function rotaryTable(config: ModelConfig, positions: number): RotaryTable {
  const half = config.headWidth / 2;
  const cos = new Float32Array(positions * half);
  const sin = new Float32Array(positions * half);
  for (let position = 0; position < positions; position++) {
    for (let i = 0; i < half; i++) {
      const angle = position / config.ropeTheta ** (i / half);
      cos[position * half + i] = Math.cos(angle);
      sin[position * half + i] = Math.sin(angle);
    }
  }
  return { cos, sin, half };
}

/** [tokens, tokens]: row t sees columns 0..t. */
export function causalMask(tokens: number): Float32Array {
  const mask = new Float32Array(tokens * tokens);
  for (let row = 0; row < tokens; row++) mask.fill(HIDDEN, row * tokens + row + 1, (row + 1) * tokens);
  return mask;
}
