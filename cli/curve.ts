/**
 * @file `curve.svg`: the reward of each agent per step, raw and smoothed, and the held-out scores as points. Drawn by echarts
 * without a browser; the colours follow the reader's light or dark theme.
 */
import { LineChart, ScatterChart } from "echarts/charts";
import { GridComponent, LegendComponent, TitleComponent } from "echarts/components";
import { init, use } from "echarts/core";
import { SVGRenderer } from "echarts/renderers";
import type { Report } from "./report.ts";

use([LineChart, ScatterChart, GridComponent, LegendComponent, TitleComponent, SVGRenderer]);

const WIDTH = 960;
const HEIGHT = 480;
const FONT = "ui-sans-serif, system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif";

/** Light colour -> its dark counterpart: every colour of the picture is here. */
const COLOURS = {
  background: ["#ffffff", "#0d1117"],
  text: ["#1f2328", "#e6edf3"],
  faint: ["#656d76", "#8d96a0"],
  grid: ["#e8ebef", "#21262d"],
  heldOut: ["#1a7f37", "#3fb950"],
} as const;
const AGENTS = [
  ["#0969da", "#58a6ff"],
  ["#bc4c00", "#f0883e"],
  ["#8250df", "#bc8cff"],
  ["#bf3989", "#f778ba"],
] as const;

/** Exponential moving average; null where nothing was measured yet. */
export function smooth(values: readonly (number | null)[], halfLife = 5): (number | null)[] {
  const keep = 0.5 ** (1 / halfLife);
  let average: number | null = null;
  return values.map((value) => {
    if (value !== null) average = average === null ? value : keep * average + (1 - keep) * value;
    return average;
  });
}

type CurveInput = Pick<Report, "run" | "arm" | "seed" | "steps" | "perStep" | "evaluations"> & {
  readonly agents: readonly string[];
};

export function drawCurve(input: CurveInput): string {
  const points = (greedy: boolean) =>
    input.evaluations
      .filter((one) => !one.closedBook && one.n > 0 && (one.temperature === 0) === greedy)
      .map((one) => [one.team, one.correct / one.n]);
  const heldOut = COLOURS.heldOut[0];
  const series = [
    ...input.agents.flatMap((agent, index) => {
      const colour = AGENTS[index % AGENTS.length]?.[0] ?? AGENTS[0][0];
      const raw = input.perStep.map((step) => step.reward[agent] ?? null);
      const line = (values: (number | null)[]) => input.perStep.map(({ step }, i) => [step + 1, values[i] ?? null]);
      const shared = { type: "line" as const, showSymbol: false, silent: true };
      return [
        { ...shared, data: line(raw), lineStyle: { color: colour, width: 1, opacity: 0.28 }, z: 1 },
        {
          ...shared,
          name: agent,
          data: line(smooth(raw)),
          lineStyle: { color: colour, width: 2.5 },
          color: colour,
          z: 2,
        },
      ];
    }),
    {
      type: "scatter" as const,
      name: "held-out",
      data: points(false),
      symbolSize: 10,
      itemStyle: { color: heldOut, opacity: 1 },
      z: 3,
    },
    {
      type: "scatter" as const,
      name: "held-out, greedy",
      data: points(true),
      symbol: "diamond",
      symbolSize: 11,
      itemStyle: { color: COLOURS.background[0], borderColor: heldOut, borderWidth: 2, opacity: 1 },
      z: 3,
    },
  ].filter((one) => one.data.length > 0);

  const axis = {
    axisLine: { show: false },
    axisTick: { show: false },
    axisLabel: { color: COLOURS.faint[0], fontSize: 12 },
    splitLine: { lineStyle: { color: COLOURS.grid[0] } },
    nameTextStyle: { color: COLOURS.faint[0], fontSize: 12 },
  };
  const chart = init(null, null, { renderer: "svg", ssr: true, width: WIDTH, height: HEIGHT });
  chart.setOption({
    animation: false,
    backgroundColor: COLOURS.background[0],
    textStyle: { fontFamily: FONT },
    title: {
      text: "Reward per step, and held-out questions answered right",
      subtext: `${input.run}: ${input.arm}, seed ${input.seed}, ${input.steps} steps`,
      left: 20,
      top: 14,
      textStyle: { color: COLOURS.text[0], fontSize: 16, fontWeight: 600 },
      subtextStyle: { color: COLOURS.faint[0], fontSize: 12 },
    },
    legend: {
      right: 22,
      top: 18,
      itemWidth: 18,
      textStyle: { color: COLOURS.text[0], fontSize: 12 },
      itemHeight: 9,
      itemGap: 18,
      data: series.flatMap((one) =>
        "name" in one ? [{ name: one.name, ...(one.type === "line" && { icon: "path://M0,4h18v2h-18z" }) }] : [],
      ),
    },
    grid: { left: 56, right: 28, top: 84, bottom: 52 },
    xAxis: {
      ...axis,
      type: "value",
      name: "step",
      nameLocation: "middle",
      nameGap: 30,
      min: 0,
      max: input.steps,
      splitLine: { show: false },
    },
    yAxis: { ...axis, type: "value", min: 0, max: 1 },
    series,
  });
  const svg = chart.renderToSVGString();
  chart.dispose();
  return themed(svg);
}

/** Teaches the picture a dark theme: CSS wins over the colours that echarts wrote as attributes. */
function themed(svg: string): string {
  const rules = [...Object.values(COLOURS), ...AGENTS].flatMap(([light, dark]) => [
    `[fill="${light}"]{fill:${dark}}`,
    `[stroke="${light}"]{stroke:${dark}}`,
  ]);
  return svg.replace(
    /<svg[^>]*>/,
    (tag) => `${tag}\n<style>@media (prefers-color-scheme: dark){${rules.join("")}}</style>`,
  );
}
