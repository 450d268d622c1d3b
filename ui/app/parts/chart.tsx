/** @file A chart, drawn as SVG. Its colors follow the reader's theme. */
import { BarChart, LineChart, ScatterChart } from "echarts/charts";
import { GridComponent, LegendComponent, TooltipComponent } from "echarts/components";
import { type EChartsCoreOption, type EChartsType, init, use } from "echarts/core";
import { SVGRenderer } from "echarts/renderers";
import { useEffect, useRef } from "preact/hooks";
import { COLORS, lineTypeOf, SERIES } from "../../palette.ts";
import type { ChartProps, Line } from "./chart-props.ts";
import { axisNumber } from "./format.ts";

use([BarChart, LineChart, ScatterChart, GridComponent, LegendComponent, TooltipComponent, SVGRenderer]);

const dark = matchMedia("(prefers-color-scheme: dark)");
/** The shade of a color for the reader's theme. */
const shade = (pair: readonly [string, string]): string => pair[dark.matches ? 1 : 0];

export function Chart({ title, lines, xName = "step", bounds, onPick }: ChartProps) {
  const element = useRef<HTMLDivElement>(null);
  const chart = useRef<EChartsType | undefined>(undefined);
  useEffect(() => {
    if (!element.current) return;
    const drawn = init(element.current, null, { renderer: "svg" });
    chart.current = drawn;
    const resize = new ResizeObserver(() => drawn.resize());
    resize.observe(element.current);
    return () => {
      resize.disconnect();
      drawn.dispose();
      chart.current = undefined;
    };
  }, []);
  useEffect(() => {
    const draw = () => chart.current?.setOption(optionOf({ lines, xName, bounds }), true);
    draw();
    dark.addEventListener("change", draw);
    return () => dark.removeEventListener("change", draw);
  }, [lines, xName, bounds]);
  useEffect(() => {
    const drawn = chart.current;
    if (!onPick || !drawn) return;
    const pick = ({ offsetX, offsetY }: { readonly offsetX: number; readonly offsetY: number }) => {
      if (!drawn.containPixel("grid", [offsetX, offsetY])) return;
      const [x] = drawn.convertFromPixel("grid", [offsetX, offsetY]) as number[];
      if (x !== undefined) onPick(Math.round(x));
    };
    const renderer = drawn.getZr();
    renderer.on("click", pick);
    return () => renderer.off("click", pick);
  }, [onPick]);
  return (
    <figure>
      <figcaption>{title}</figcaption>
      <div ref={element} class="chart" role="img" aria-label={`${title}: ${lines.map(lastValueOf).join("; ")}`} />
    </figure>
  );
}

/** The last value of a line, in words, for readers who cannot see the chart. */
function lastValueOf(line: Line): string {
  const name = nameOf(line);
  const [x, y] = line.points.findLast(([, value]) => value !== null) ?? [];
  return y === undefined || y === null ? `${name} has no value` : `${name} ${Number(y.toPrecision(3))} at ${x}`;
}

interface Drawing {
  readonly lines: readonly Line[];
  readonly xName: string;
  readonly bounds: readonly [number, number] | undefined;
}

function optionOf({ lines, xName, bounds }: Drawing): EChartsCoreOption {
  const named = lines.filter(({ kind }) => kind !== "raw").map(({ name }) => name);
  const axis = {
    type: "value",
    axisLine: { show: false },
    axisTick: { show: false },
    axisLabel: { color: shade(COLORS.faint), fontSize: 11, formatter: axisNumber },
    splitLine: { lineStyle: { color: shade(COLORS.grid) } },
    nameTextStyle: { color: shade(COLORS.faint), fontSize: 11 },
  };
  const isWhole = lines.every(({ points }) => points.every(([x]) => Number.isInteger(x)));
  const minInterval = isWhole ? 1 : 0;
  const xAxis = { ...axis, name: xName, nameLocation: "middle", nameGap: 22, minInterval, min: "dataMin" };
  return {
    animation: false,
    textStyle: { fontFamily: FONT },
    grid: { left: 48, right: 16, top: named.length > 1 ? 30 : 12, bottom: 36 },
    legend: { ...LEGEND, show: named.length > 1, data: named, textStyle: textStyle() },
    tooltip: { ...TOOLTIP, backgroundColor: shade(COLORS.background), textStyle: textStyle() },
    xAxis: { ...xAxis, max: "dataMax", splitLine: { show: false } },
    yAxis: {
      ...axis,
      scale: lines.every(({ kind }) => kind !== "bar"),
      ...(bounds && { min: bounds[0], max: bounds[1] }),
    },
    series: lines.flatMap((line, i) => [...bandOf(line, i), seriesOf(line)]),
  };
}

const FONT = "ui-sans-serif, system-ui, sans-serif";
const textStyle = () => ({ color: shade(COLORS.text), fontSize: 11 });

const LEGEND = { type: "scroll", left: 0, top: 0, itemWidth: 14, itemHeight: 7 };

const TOOLTIP = {
  trigger: "axis",
  renderMode: "richText",
  valueFormatter: (value: unknown) => (typeof value === "number" ? String(Number(value.toPrecision(4))) : "–"),
};

const shadeOf = (color: Line["color"]): string =>
  shade(color === "heldOut" ? COLORS.heldOut : (SERIES[color % SERIES.length] ?? SERIES[0]));

/** Two stacked lines, both invisible: one at low, and one of height high - low, whose area is the band. */
function bandOf({ band, color: position }: Line, i: number) {
  if (!band) return [];
  const common = {
    type: "line",
    stack: `band ${i}`,
    stackStrategy: "all",
    silent: true,
    showSymbol: false,
    z: 0,
    lineStyle: { opacity: 0 },
    tooltip: { show: false },
  };
  return [
    { ...common, data: band.map(([x, low]) => [x, low]) },
    {
      ...common,
      data: band.map(([x, low, high]) => [x, high - low]),
      areaStyle: { color: shadeOf(position), opacity: 0.16 },
    },
  ];
}

/** A raw line and its smoothed line have the same `name`: this distinguishes them. */
const nameOf = ({ name, kind }: Line): string => (kind === "raw" ? `${name}, raw` : name);

function seriesOf(one: Line) {
  const { points, color: position, kind } = one;
  const name = nameOf(one);
  const color = shadeOf(position);
  const data = points.map(([x, y]) => [x, y]);
  if (kind === "points") return { type: "scatter", name, data, symbolSize: 8, itemStyle: { color }, z: 3 };
  if (kind === "bar") return { type: "bar", name, data, stack: "all", itemStyle: { color } };
  const line = { type: "line", name, data, color };
  const type = position === "heldOut" ? "solid" : lineTypeOf(position);
  if (kind !== "raw") return { ...line, showSymbol: points.length === 1, lineStyle: { color, width: 2, type }, z: 2 };
  const style = { lineStyle: { color, width: 1, opacity: 0.28 }, showSymbol: false };
  return { ...line, ...style, silent: true, z: 1 };
}
