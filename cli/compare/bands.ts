/** @file The curves of a comparison: one line per arm with a band around it, as SVG, drawn by echarts without a browser. */
import { CustomChart, LineChart } from "echarts/charts";
import { GridComponent, LegendComponent, TitleComponent } from "echarts/components";
import { use } from "echarts/core";
import { SVGRenderer } from "echarts/renderers";
import {
  COLOURS,
  COUNT_AXIS,
  FONT,
  LEGEND,
  LINE_ICON,
  openChart,
  plotTop,
  SHARE_AXIS,
  seriesColour,
  themed,
  titled,
  WIDTH,
} from "../chart-theme.ts";

use([LineChart, CustomChart, GridComponent, LegendComponent, TitleComponent, SVGRenderer]);

export interface Band {
  readonly name: string;
  /** Along x. */
  readonly points: readonly { readonly x: number; readonly y: number; readonly low: number; readonly high: number }[];
}

export interface BandChart {
  readonly title: string;
  /** What the bands are. */
  readonly note: string;
  readonly xName: string;
  readonly bands: readonly Band[];
  /** Whether each point is a measurement of its own. */
  readonly marked: boolean;
}

/** What a line above the picture can hold; more, or longer names, stand in a column beside it. */
const ABOVE = { names: 6, characters: 24 };
const COLUMN = 214;

/** Values are shares in [0, 1]. */
export function drawBands({ title, note, xName, bands, marked }: BandChart): string {
  const series = bands.flatMap(({ name, points }, i) => {
    const colour = seriesColour(i);
    const outline = [...points.map(({ x, high }) => [x, high]), ...points.toReversed().map(({ x, low }) => [x, low])];
    return [
      {
        type: "custom" as const,
        silent: true,
        z: 1,
        data: [0],
        renderItem: (_: unknown, api: { coord(point: number[]): number[] }) => ({
          type: "polygon" as const,
          shape: { points: outline.map((point) => api.coord(point)) },
          style: { fill: colour, opacity: 0.12 },
        }),
      },
      {
        ...{ type: "line" as const, name, silent: true, z: 2, color: colour },
        data: points.map(({ x, y }) => [x, y]),
        ...{ showSymbol: marked, symbol: "circle", symbolSize: 5 },
        lineStyle: { color: colour, width: 2.2 },
      },
    ];
  });
  const isAbove = bands.length <= ABOVE.names && bands.every(({ name }) => name.length <= ABOVE.characters);
  const legend = isAbove ? LEGEND : { ...LEGEND, orient: "vertical" as const, left: WIDTH - COLUMN, itemGap: 12 };
  const top = isAbove ? plotTop(bands.map(({ name }) => name)) : 68;
  const chart = openChart();
  chart.setOption({
    animation: false,
    backgroundColor: COLOURS.background[0],
    textStyle: { fontFamily: FONT },
    title: titled(title, note),
    legend: { ...legend, data: bands.map(({ name }) => ({ name, icon: LINE_ICON })) },
    grid: { left: 56, right: isAbove ? 28 : COLUMN + 24, top, bottom: 52 },
    xAxis: { ...COUNT_AXIS, name: xName },
    yAxis: SHARE_AXIS,
    series,
  });
  const svg = chart.renderToSVGString();
  chart.dispose();
  return themed(svg);
}
