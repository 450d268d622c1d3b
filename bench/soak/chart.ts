/** @file A quantity over the minutes of a soak, as SVG, drawn by echarts without a browser. */
import { LineChart } from "echarts/charts";
import { GridComponent, LegendComponent, TitleComponent } from "echarts/components";
import { use } from "echarts/core";
import { SVGRenderer } from "echarts/renderers";
import {
  AXIS,
  COUNT_AXIS,
  FONT,
  LEGEND,
  LINE_ICON,
  openChart,
  plotTop,
  seriesColor,
  themed,
  titled,
} from "../../cli/chart-theme.ts";
import { COLORS } from "../../ui/palette.ts";
import type { Series } from "./series.ts";

use([LineChart, GridComponent, LegendComponent, TitleComponent, SVGRenderer]);

export function drawSeries({ title, unit, lines }: Series): string {
  const names = lines.map(({ name }) => name);
  const chart = openChart();
  chart.setOption({
    animation: false,
    backgroundColor: COLORS.background[0],
    textStyle: { fontFamily: FONT },
    title: titled(title, unit),
    legend: { ...LEGEND, data: names.map((name) => ({ name, icon: LINE_ICON })) },
    grid: { left: 64, right: 28, top: plotTop(names), bottom: 52 },
    xAxis: { ...COUNT_AXIS, name: "minutes" },
    yAxis: { ...AXIS, type: "value" as const, min: 0 },
    series: lines.map(({ name, points }, i) => ({
      type: "line" as const,
      name,
      data: points.map((point) => [...point]),
      showSymbol: false,
      silent: true,
      color: seriesColor(i),
      lineStyle: { width: 2 },
    })),
  });
  const svg = chart.renderToSVGString();
  chart.dispose();
  return themed(svg);
}
