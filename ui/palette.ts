/** @file The colors of charts in the light and the dark theme, and the smoothing of noisy curves. */

/** [light, dark]. Every color of a chart is here or in SERIES. */
export const COLORS = {
  background: ["#ffffff", "#0d1117"],
  text: ["#1f2328", "#e6edf3"],
  faint: ["#656d76", "#8d96a0"],
  grid: ["#e8ebef", "#21262d"],
  heldOut: ["#1a7f37", "#3fb950"],
} as const;
/** The colors of lines, in order; [light, dark]. */
export const SERIES = [
  ["#0969da", "#58a6ff"],
  ["#bc4c00", "#f0883e"],
  ["#8250df", "#bc8cff"],
  ["#bf3989", "#f778ba"],
  ["#0a7d7d", "#39c5bb"],
  ["#57606a", "#afb8c1"],
  ["#9a6700", "#d29922"],
  ["#cf222e", "#ff7b72"],
  ["#4d7c0f", "#a3d977"],
  ["#6f4e37", "#c8a27c"],
] as const;

/** The style of the n-th line: a line with the color of an earlier one is dashed, and from the third of that color on dotted. */
export function lineTypeOf(n: number): "solid" | "dashed" | "dotted" {
  if (n < SERIES.length) return "solid";
  return n < 2 * SERIES.length ? "dashed" : "dotted";
}

/** After this many measurements, a value has half its weight. */
const HALF_LIFE = 5;

/** Exponential moving average; null before the first measurement. */
export function smooth(values: readonly (number | null)[]): (number | null)[] {
  const keep = 0.5 ** (1 / HALF_LIFE);
  let average: number | null = null;
  return values.map((value) => {
    if (value !== null) average = average === null ? value : keep * average + (1 - keep) * value;
    return average;
  });
}
