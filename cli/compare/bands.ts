/** @file The curves of a comparison: one line per arm with a band around it, as SVG, drawn by echarts without a browser. */
import { CustomChart, LineChart } from "echarts/charts";
import { GridComponent, LegendComponent, TitleComponent } from "echarts/components";
import { use } from "echarts/core";
import { SVGRenderer } from "echarts/renderers";
import { lineTypeOf } from "../../ui/palette.ts";
import { COUNT_AXIS, lineIcon, renderChart, seriesColor, shareAxis } from "../chart-theme.ts";

use([LineChart, CustomChart, GridComponent, LegendComponent, TitleComponent, SVGRenderer]);

export interface Band {
  readonly name: string;
  /** In order of x. */
  readonly points: readonly { readonly x: number; readonly y: number; readonly low: number; readonly high: number }[];
}

export interface BandChart {
  readonly title: string;
  /** What the bands show. */
  readonly subtitle: string;
  readonly xName: string;
  /** Whether x counts something: its ticks are whole numbers. */
  readonly xIsCount: boolean;
  readonly bands: readonly Band[];
  /** Whether to mark each point as a separate measurement. */
  readonly marked: boolean;
}

/** Values are shares in [0, 1], or rewards. */
export function drawBands({ title, subtitle, xName, xIsCount, bands, marked }: BandChart): string {
  const legend = bands.map(({ name }, i) => ({ name, icon: lineIcon(i) }));
  return renderChart(
    { title, subtitle, legend },
    {
      xAxis: { ...COUNT_AXIS, minInterval: xIsCount ? 1 : 0, name: xName },
      yAxis: shareAxis(bands.flatMap(({ points }) => points.flatMap(({ low, high }) => [low, high]))),
      series: bands.flatMap((band, i) => seriesOf(band, i, marked)),
    },
  );
}

/** The band, and the line on top of it. */
function seriesOf({ name, points }: Band, position: number, marked: boolean) {
  const color = seriesColor(position);
  const upper = points.map(({ x, high }) => [x, high]);
  const lower = points.toReversed().map(({ x, low }) => [x, low]);
  const outline = [...upper, ...lower];
  return [
    {
      type: "custom" as const,
      silent: true,
      z: 1,
      data: [0],
      renderItem: (_: unknown, api: { coord(point: number[]): number[] }) => ({
        type: "polygon" as const,
        shape: { points: outline.map((point) => api.coord(point)) },
        style: { fill: color, opacity: 0.12 },
      }),
    },
    {
      type: "line" as const,
      name,
      silent: true,
      z: 2,
      color,
      data: points.map(({ x, y }) => [x, y]),
      showSymbol: marked,
      symbol: "circle",
      symbolSize: 5,
      lineStyle: { color, width: 2.2, type: lineTypeOf(position) },
    },
  ];
}
