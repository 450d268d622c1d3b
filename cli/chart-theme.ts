/** @file What all charts share: size, font, colors, axes, the legend's layout, and a dark theme that follows the reader's preference. */
import { type EChartsType, init, setPlatformAPI } from "echarts/core";
import { COLORS, lineTypeOf, SERIES } from "../ui/palette.ts";

const WIDTH = 960;
/** The height of a chart whose legend has one row of names. Each further row makes the chart taller, so the plot keeps its height. */
const HEIGHT = 480;
const FONT = "ui-sans-serif, system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif";

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

/** The axis covers 0 to 1, and any value outside: a penalty can make a reward negative, and its parts may sum to more than 1. */
export function shareAxis(values: readonly number[]) {
  const min = values.reduce((low, value) => Math.min(low, value), 0);
  const max = values.reduce((high, value) => Math.max(high, value), 1);
  return { ...AXIS, type: "value" as const, min, max };
}

function titled(text: string, subtext: string) {
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

const ICONS = {
  solid: LINE_ICON,
  dashed: "path://M0,4h8v2h-8zM10,4h8v2h-8z",
  dotted: "path://M0,4h3v2h-3zM5,4h3v2h-3zM10,4h3v2h-3zM15,4h3v2h-3z",
};

/** The legend's symbol for the n-th line, whose style is `lineTypeOf(n)`. */
export const lineIcon = (n: number): string => ICONS[lineTypeOf(n)];

/** Pixels. `top` is below the title and its subtitle. */
const LEGEND = {
  left: 20,
  right: 22,
  top: 62,
  itemWidth: 18,
  itemHeight: 9,
  itemGap: 18,
  textStyle: { color: COLORS.text[0], fontSize: 12 },
};
const SYMBOL_GAP = 5;
const ROW_HEIGHT = 28;

/** Where the plot begins, in pixels from the top: below a legend of these names, in as many rows as it needs. */
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
  return top + rows * ROW_HEIGHT + 14;
}

/** An upper estimate: the reader's browser picks the font, and names must not overlap even in a wide one. CJK characters are square. */
function textWidth(text: string, fontSize: number): number {
  const ems = [...text].reduce((sum, character) => sum + (character > "\u2e80" ? 1 : 0.64), 0);
  return ems * fontSize;
}

/** An empty chart. It draws SVG without a browser, so text widths are estimated. */
function openChart(height: number): EChartsType {
  setPlatformAPI({
    measureText: (text, font) => ({ width: textWidth(text, Number.parseFloat(font ?? "") || 12) }),
  });
  return init(null, null, { renderer: "svg", ssr: true, width: WIDTH, height });
}

export interface ChartFrame {
  readonly title: string;
  readonly subtitle: string;
  readonly legend: readonly { readonly name: string; readonly icon?: string }[];
  /** Pixels for the labels of the y axis; 56 by default. */
  readonly left?: number;
}

/** A chart as SVG: the axes and series of `option` in the frame that all charts share. */
export function renderChart({ title, subtitle, legend, left = 56 }: ChartFrame, option: object): string {
  const top = plotTop(legend.map(({ name }) => name));
  const chart = openChart(HEIGHT + top - plotTop([]));
  chart.setOption({
    animation: false,
    backgroundColor: COLORS.background[0],
    textStyle: { fontFamily: FONT },
    title: titled(title, subtitle),
    legend: { ...LEGEND, data: [...legend] },
    grid: { left, right: 28, top, bottom: 52 },
    ...option,
  });
  const svg = chart.renderToSVGString();
  chart.dispose();
  return themed(svg);
}

/** Adds a dark theme: CSS overrides the colors that echarts writes as attributes. */
function themed(svg: string): string {
  const rules = [...Object.values(COLORS), ...SERIES].flatMap(([light, dark]) => [
    `[fill="${light}"]{fill:${dark}}`,
    `[stroke="${light}"]{stroke:${dark}}`,
  ]);
  return svg.replace(
    /<svg[^>]*>/,
    (tag) => `${tag}\n<style>@media (prefers-color-scheme: dark){${rules.join("")}}</style>`,
  );
}
