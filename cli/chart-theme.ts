/** @file What all charts share: size, font, colors, axes, the legend's layout, and a dark theme that follows the reader's preference. */
import { type EChartsType, init, setPlatformAPI } from "echarts/core";

export const WIDTH = 960;
const HEIGHT = 480;
export const FONT = "ui-sans-serif, system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif";

/** Light color -> its dark counterpart: every color of a chart is here or in SERIES. */
export const COLORS = {
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

/** The light color of the n-th line. */
export const seriesColor = (n: number): string => (SERIES[n % SERIES.length] ?? SERIES[0])[0];

export const AXIS = {
  axisLine: { show: false },
  axisTick: { show: false },
  axisLabel: { color: COLORS.faint[0], fontSize: 12 },
  splitLine: { lineStyle: { color: COLORS.grid[0] } },
  nameTextStyle: { color: COLORS.faint[0], fontSize: 12 },
};

/** The x axis of a count, such as steps: no ticks between whole numbers. */
export const COUNT_AXIS = {
  ...AXIS,
  type: "value" as const,
  nameLocation: "middle" as const,
  nameGap: 30,
  minInterval: 1,
  splitLine: { show: false },
};

export const SHARE_AXIS = { ...AXIS, type: "value" as const, min: 0, max: 1 };

export function titled(text: string, subtext: string) {
  return {
    text,
    subtext,
    left: 20,
    top: 14,
    textStyle: { color: COLORS.text[0], fontSize: 16, fontWeight: 600 },
    subtextStyle: { color: COLORS.faint[0], fontSize: 12 },
  };
}

/** The legend's symbol for a line. */
export const LINE_ICON = "path://M0,4h18v2h-18z";

/** Pixels. `top` is below the title and its subtitle. */
export const LEGEND = {
  left: 20,
  right: 22,
  top: 62,
  itemWidth: 18,
  itemHeight: 9,
  itemGap: 18,
  textStyle: { color: COLORS.text[0], fontSize: 12 },
};
const SYMBOL_GAP = 5;
const ROW = 28;

/** Where the plot begins below a legend of these names, which takes as many rows as it needs. */
export function plotTop(names: readonly string[]): number {
  const { left, right, top, itemWidth, itemGap, textStyle } = LEGEND;
  let rows = 1;
  let x = left;
  for (const name of names) {
    const width = itemWidth + SYMBOL_GAP + textWidth(name, textStyle.fontSize);
    if (x > left && x + width > WIDTH - right) {
      rows++;
      x = left;
    }
    x += width + itemGap;
  }
  return top + rows * ROW + 14;
}

/** An upper estimate: the reader's browser picks the font, and names must not run into each other in a wide one. CJK is square. */
function textWidth(text: string, fontSize: number): number {
  const ems = [...text].reduce((sum, character) => sum + (character > "\u2e80" ? 1 : 0.64), 0);
  return ems * fontSize;
}

/** An empty chart. It draws SVG without a browser, so text widths are estimated. */
export function openChart(): EChartsType {
  setPlatformAPI({
    measureText: (text, font) => ({ width: textWidth(text, Number.parseFloat(font ?? "") || 12) }),
  });
  return init(null, null, { renderer: "svg", ssr: true, width: WIDTH, height: HEIGHT });
}

/** Exponential moving average; null before the first measurement. */
export function smooth(values: readonly (number | null)[], halfLife = 5): (number | null)[] {
  const keep = 0.5 ** (1 / halfLife);
  let average: number | null = null;
  return values.map((value) => {
    if (value !== null) average = average === null ? value : keep * average + (1 - keep) * value;
    return average;
  });
}

/** Adds a dark theme: CSS overrides the colors that echarts writes as attributes. */
export function themed(svg: string): string {
  const rules = [...Object.values(COLORS), ...SERIES].flatMap(([light, dark]) => [
    `[fill="${light}"]{fill:${dark}}`,
    `[stroke="${light}"]{stroke:${dark}}`,
  ]);
  return svg.replace(
    /<svg[^>]*>/,
    (tag) => `${tag}\n<style>@media (prefers-color-scheme: dark){${rules.join("")}}</style>`,
  );
}
