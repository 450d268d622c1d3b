/** @file Sum, mean and median. */

export const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/** NaN if there are none. */
export const mean = (values: readonly number[]): number => sum(values) / values.length;

/** Of an even number of values, the mean of the two in the middle; NaN if there are none. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  return ((sorted[Math.floor(middle)] ?? Number.NaN) + (sorted[Math.ceil(middle)] ?? Number.NaN)) / 2;
}
