/** @file What the pictures share: size, font, colours, axes, and the dark theme that follows the reader's. */

export const WIDTH = 960;
export const HEIGHT = 480;
export const FONT = "ui-sans-serif, system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif";

/** Light colour -> its dark counterpart: every colour of a picture is here or in SERIES. */
export const COLOURS = {
  background: ["#ffffff", "#0d1117"],
  text: ["#1f2328", "#e6edf3"],
  faint: ["#656d76", "#8d96a0"],
  grid: ["#e8ebef", "#21262d"],
  heldOut: ["#1a7f37", "#3fb950"],
} as const;
const SERIES = [
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

/** The light colour of the n-th line. */
export const seriesColour = (n: number): string => (SERIES[n % SERIES.length] ?? SERIES[0])[0];

export const AXIS = {
  axisLine: { show: false },
  axisTick: { show: false },
  axisLabel: { color: COLOURS.faint[0], fontSize: 12 },
  splitLine: { lineStyle: { color: COLOURS.grid[0] } },
  nameTextStyle: { color: COLOURS.faint[0], fontSize: 12 },
};

export function titled(text: string, subtext: string) {
  return {
    ...{ text, subtext, left: 20, top: 14 },
    textStyle: { color: COLOURS.text[0], fontSize: 16, fontWeight: 600 },
    subtextStyle: { color: COLOURS.faint[0], fontSize: 12 },
  };
}

/** Where a legend's line stands for a line. */
export const LINE_ICON = "path://M0,4h18v2h-18z";

export const LEGEND = {
  right: 22,
  itemWidth: 18,
  itemHeight: 9,
  itemGap: 18,
  textStyle: { color: COLOURS.text[0], fontSize: 12 },
};

/** Exponential moving average; null where nothing was measured yet. */
export function smooth(values: readonly (number | null)[], halfLife = 5): (number | null)[] {
  const keep = 0.5 ** (1 / halfLife);
  let average: number | null = null;
  return values.map((value) => {
    if (value !== null) average = average === null ? value : keep * average + (1 - keep) * value;
    return average;
  });
}

/** Teaches a picture a dark theme: CSS wins over the colours that echarts wrote as attributes. */
export function themed(svg: string): string {
  const rules = [...Object.values(COLOURS), ...SERIES].flatMap(([light, dark]) => [
    `[fill="${light}"]{fill:${dark}}`,
    `[stroke="${light}"]{stroke:${dark}}`,
  ]);
  return svg.replace(
    /<svg[^>]*>/,
    (tag) => `${tag}\n<style>@media (prefers-color-scheme: dark){${rules.join("")}}</style>`,
  );
}
