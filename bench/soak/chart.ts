/** @file Plots a quantity of a soak test over time as SVG, with echarts and without a browser. */
import { LineChart } from "echarts/charts";
import { GridComponent, LegendComponent, TitleComponent } from "echarts/components";
import { use } from "echarts/core";
import { SVGRenderer } from "echarts/renderers";
import { AXIS, COUNT_AXIS, LINE_ICON, renderChart, seriesColor } from "../../cli/chart-theme.ts";
import type { Series } from "./series.ts";

use([LineChart, GridComponent, LegendComponent, TitleComponent, SVGRenderer]);

export function drawSeries({ title, unit, lines }: Series): string {
  const legend = lines.map(({ name }) => ({ name, icon: LINE_ICON }));
  return renderChart(
    { title, subtitle: unit, legend, left: 64 },
    {
      xAxis: { ...COUNT_AXIS, name: "minutes" },
      yAxis: { ...AXIS, type: "value", min: 0 },
      series: lines.map(({ name, points }, i) => ({
        type: "line",
        name,
        data: points,
        showSymbol: false,
        silent: true,
        color: seriesColor(i),
        lineStyle: { width: 2 },
      })),
    },
  );
}
