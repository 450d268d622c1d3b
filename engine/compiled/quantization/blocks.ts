/**
 * @file Block-wise symmetric quantization: 32 weights along the input dimension share a float32 scale, and a weight is scale * (code - zero point).
 *
 *     bits   zero point   scale
 *     4      8            m / -8, m the weight of largest magnitude, with its sign: m itself becomes -8, as in GGUF's Q4_0
 *     8      128          |m| / 127, as in GGUF's Q8_0
 *
 * So a float32 base that was imported from one of these formats keeps its weights exactly, except Q4_0 made with an importance matrix: its
 * blocks need not use -8. 4-bit codes are packed in pairs, the first in the low half of the byte. The layout is that of onnxruntime's
 * MatMulNBits, and of DequantizeLinear on uint4 and uint8.
 */

/** Weights per scale. */
export const BLOCK = 32;

export type Bits = 4 | 8;

export interface QuantizedBlocks {
  readonly codes: Uint8Array;
  /** One per block. */
  readonly scales: Float32Array;
}

export const codeBytes = (weights: number, bits: Bits): number => (weights * bits) / 8;
export const zeroPointOf = (bits: Bits): number => 2 ** (bits - 1);

/** `weights` are rows of whole blocks. */
export function quantizeBlocks(weights: Float32Array, bits: Bits): QuantizedBlocks {
  const codes = new Uint8Array(codeBytes(weights.length, bits));
  const scales = new Float32Array(weights.length / BLOCK);
  for (let block = 0; block < scales.length; block++) {
    const begin = block * BLOCK;
    const scale = scaleOf(largest(weights, begin), bits);
    scales[block] = scale;
    if (bits === 8) for (let i = begin; i < begin + BLOCK; i++) codes[i] = codeOf(weights[i] as number, scale, bits);
    else {
      for (let i = begin; i < begin + BLOCK; i += 2) {
        const [low, high] = [codeOf(weights[i] as number, scale, bits), codeOf(weights[i + 1] as number, scale, bits)];
        codes[i >> 1] = low | (high << 4);
      }
    }
  }
  return { codes, scales };
}

/** The weight of largest magnitude in a block; of several, the first. NaN if any weight is: no code is NaN, so the scale must be. */
function largest(weights: Float32Array, begin: number): number {
  let found = 0;
  for (let i = begin; i < begin + BLOCK; i++) {
    const weight = weights[i] as number;
    if (Number.isNaN(weight)) return weight;
    if (Math.abs(weight) > Math.abs(found)) found = weight;
  }
  return found;
}

/** The smallest normal float32: the runtime flushes smaller numbers to zero. */
const SMALLEST_NORMAL = 2 ** -126;

function scaleOf(peak: number, bits: Bits): number {
  const scale = Math.fround(bits === 4 ? peak / -8 : Math.abs(peak) / 127);
  return Math.abs(scale) < SMALLEST_NORMAL ? 0 : scale;
}

function codeOf(weight: number, scale: number, bits: Bits): number {
  const zeroPoint = zeroPointOf(bits);
  if (scale === 0) return zeroPoint;
  return Math.min(Math.round(weight / scale) + zeroPoint, 2 * zeroPoint - 1);
}
