/** @file Rotary angles and the causal mask, as plain arrays. */
import type { ModelConfig } from "../checkpoint/config.ts";

/** Added to the score of a masked key; its exp is exactly 0. */
export const MASK_VALUE = -1e30;

export interface RotaryTable {
  /** [positions, hd / 2], row-major. */
  readonly cos: Float32Array;
  readonly sin: Float32Array;
  /** hd / 2 */
  readonly half: number;
}

/** Angle of position p and pair i: p / positionsPerRadian[i]. */
export function rotaryTable(config: ModelConfig, positions: number): RotaryTable {
  const half = config.headWidth / 2;
  const positionsPerRadian = positionsPerRadianOf(config);
  const cos = new Float32Array(positions * half);
  const sin = new Float32Array(positions * half);
  for (let position = 0; position < positions; position++) {
    for (let i = 0; i < half; i++) {
      const angle = position / (positionsPerRadian[i] as number);
      cos[position * half + i] = Math.cos(angle);
      sin[position * half + i] = Math.sin(angle);
    }
  }
  return { cos, sin, half };
}

/**
 * The reciprocal of each pair's frequency: theta^(2i / hd). `inv_freq` in transformers is the frequency itself. With Llama 3.1 scaling, the
 * frequency is divided by the factor if the wavelength (2 pi / frequency) is long, kept if it is short, and otherwise interpolated linearly in
 * originalContext / wavelength.
 */
function positionsPerRadianOf({ headWidth, ropeTheta, ropeScaling }: ModelConfig): number[] {
  const half = headWidth / 2;
  const unscaled = Array.from({ length: half }, (_, i) => ropeTheta ** (i / half));
  if (!ropeScaling) return unscaled;
  const { factor, lowFrequencyFactor: low, highFrequencyFactor: high, originalContext } = ropeScaling;
  return unscaled.map((inverse) => {
    const rotations = originalContext / (2 * Math.PI * inverse);
    const kept = Math.min(1, Math.max(0, (rotations - low) / (high - low)));
    return inverse / (kept + (1 - kept) / factor);
  });
}

/** [tokens, tokens]: row t attends to columns 0..t. */
export function causalMask(tokens: number): Float32Array {
  const mask = new Float32Array(tokens * tokens);
  for (let row = 0; row < tokens; row++) mask.fill(MASK_VALUE, row * tokens + row + 1, (row + 1) * tokens);
  return mask;
}
