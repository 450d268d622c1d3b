/** @file Charts of a comparison: one line per arm, with a confidence band around it. echarts draws them as SVG, without a browser. */
import { CustomChart, LineChart } from "echarts/charts";
import { GridComponent, LegendComponent, TitleComponent } from "echarts/components";
import { init, use } from "echarts/core";
import { SVGRenderer } from "echarts/renderers";
import { AXIS, COLOURS, FONT, HEIGHT, LEGEND, LINE_ICON, seriesColour, themed, titled, WIDTH } from "../chart-theme.ts";

use([LineChart, CustomChart, GridComponent, LegendComponent, TitleComponent, SVGRenderer]);

export interface Band {
  readonly name: string;
  /** In the order of x. */
  readonly points: readonly { readonly x: number; readonly y: number; readonly low: number; readonly high: number }[];
}

export interface BandChart {
  readonly title: string;
  /** What was measured, and what the bands are. */
  readonly subtitle: string;
  readonly xName: string;
  /** Whether x counts something, so that its ticks are whole numbers. */
  readonly xIsCount: boolean;
  readonly bands: readonly Band[];
  /** Whether every point is a measurement, and is marked. */
  readonly marked: boolean;
}

const MARGIN = 20;
/** Pixels. */
const LEGEND_TOP = 62;
const LEGEND_ROW = 20;
/** An upper estimate of a character's width: fonts differ between readers. */
const CHARACTER = 7;
const LONGEST_NAME = 100;

/** Values are shares in [0, 1]. The legend has as many rows as it needs, and the picture grows with it. */
export function drawBands({ title, subtitle, xName, xIsCount, bands, marked }: BandChart): string {
  const names = bands.map(({ name }) => (name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME - 1)}…` : name));
  const legend = legendOf(names);
  const lastRow = legend.at(-1)?.row ?? 0;
  const height = HEIGHT + lastRow * LEGEND_ROW;
  const chart = init(null, null, { renderer: "svg", ssr: true, width: WIDTH, height });
  chart.setOption({
    animation: false,
    backgroundColor: COLOURS.background[0],
    textStyle: { fontFamily: FONT },
    title: titled(title, subtitle),
    legend: legend.map(({ name, left, row }) => ({
      ...LEGEND,
      left,
      top: LEGEND_TOP + row * LEGEND_ROW,
      data: [{ name, icon: LINE_ICON }],
    })),
    grid: { left: 56, right: 28, top: LEGEND_TOP + lastRow * LEGEND_ROW + 42, bottom: 52 },
    xAxis: {
      ...AXIS,
      type: "value",
      name: xName,
      nameLocation: "middle",
      nameGap: 30,
      splitLine: { show: false },
      ...(xIsCount && { minInterval: 1 }),
    },
    yAxis: { ...AXIS, type: "value", min: 0, max: 1 },
    series: bands.flatMap((band, i) => seriesOf(band, names[i] ?? "", seriesColour(i), marked)),
  });
  const svg = chart.renderToSVGString();
  chart.dispose();
  return themed(svg);
}

interface LegendEntry {
  readonly name: string;
  readonly left: number;
  /** From 0. */
  readonly row: number;
}

/** Places names in rows that fit the picture's width. echarts' own layout assumes a narrow font, and names would overlap in others. */
function legendOf(names: readonly string[]): LegendEntry[] {
  let [left, row] = [MARGIN, 0];
  return names.map((name) => {
    const width = LEGEND.itemWidth + 5 + name.length * CHARACTER + LEGEND.itemGap;
    if (left > MARGIN && left + width > WIDTH - MARGIN) [left, row] = [MARGIN, row + 1];
    const entry = { name, left, row };
    left += width;
    return entry;
  });
}

/** The band as a polygon, and the line over it. */
function seriesOf({ points }: Band, name: string, colour: string, marked: boolean) {
  const upper = points.map(({ x, high }) => [x, high]);
  const lower = points.map(({ x, low }) => [x, low]).reverse();
  return [
    {
      type: "custom" as const,
      silent: true,
      z: 1,
      data: [0],
      renderItem: (_: unknown, api: { coord(point: number[]): number[] }) => ({
        type: "polygon" as const,
        shape: { points: [...upper, ...lower].map((point) => api.coord(point)) },
        style: { fill: colour, opacity: 0.12 },
      }),
    },
    {
      type: "line" as const,
      name,
      silent: true,
      z: 2,
      color: colour,
      data: points.map(({ x, y }) => [x, y]),
      showSymbol: marked,
      symbol: "circle",
      symbolSize: 5,
      lineStyle: { color: colour, width: 2.2 },
    },
  ];
}
