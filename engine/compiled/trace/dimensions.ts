/**
 * @file Symbolic dimensions. tfjs shapes are plain numbers, so while a graph is traced, each length that varies between executions is represented
 * by a large prime of its own, or by a sum of two. Products (batch x tokens) then factor uniquely, so every traced shape can be converted to a symbolic one.
 */
import { MgrpoError } from "../../../core/errors.ts";
import type { Port } from "../onnx/serialize.ts";

/**
 * Primes of which no model dimension is a multiple in practice (`refuseSymbolicDimensions` checks), and one sum: `seen` is the length of
 * `cached` and `tokens` concatenated.
 */
const PLACEHOLDERS = {
  batch: 10007,
  tokens: 20011,
  cached: 30011,
  seen: 20011 + 30011,
  rows: 40009,
  gathers: 60013,
} as const;
export type DimensionName = keyof typeof PLACEHOLDERS;
export type Lengths = Readonly<Partial<Record<DimensionName, number>>>;

export const symbolic: Readonly<Record<DimensionName, number>> = PLACEHOLDERS;

const NAMES: readonly DimensionName[] = ["batch", "tokens", "cached", "seen", "rows", "gathers"];

/** One dimension: factor x product of the named lengths. */
export interface Dimension {
  readonly factor: number;
  readonly names: readonly DimensionName[];
}

function dimension(size: number): Dimension {
  const names: DimensionName[] = [];
  let factor = size;
  for (const name of NAMES) {
    while (factor > 0 && factor % PLACEHOLDERS[name] === 0) {
      factor /= PLACEHOLDERS[name];
      names.push(name);
    }
  }
  return { factor, names };
}

export const isSymbolic = (size: number): boolean => dimension(size).names.length > 0;

/** Rejects a model with a dimension that would be mistaken for a symbolic one. */
export function refuseSymbolicDimensions(name: string, shape: readonly number[]): void {
  const size = shape.find(isSymbolic);
  if (size === undefined) return;
  const unsupported = Object.values(PLACEHOLDERS).join(", ");
  throw new MgrpoError(
    "engine-unsupported",
    `config.json: ${name} has a dimension of ${size}: the compiled engine does not support multiples of ${unsupported}: set policy to 'eager', or pad the vocabulary if that is its size`,
  );
}

export function evaluate(size: number, lengths: Lengths): number {
  const { factor, names } = dimension(size);
  return names.reduce((product, name) => product * (lengths[name] ?? 0), factor);
}

/** Dims of a graph port: fixed sizes stay numbers, symbolic ones get a name such as `batch*tokens`. */
export function portDims(shape: readonly number[]): Port["dims"] {
  return shape.map((size) => {
    const { factor, names } = dimension(size);
    return names.length === 0 ? size : [...names, ...(factor === 1 ? [] : [factor])].join("*");
  });
}
