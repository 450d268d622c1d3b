/**
 * @file `curve.svg`: the reward of each agent per step, raw and smoothed, and the held-out scores as points. The colors follow the
 * viewer's light or dark theme.
 */
import { LineChart, ScatterChart } from "echarts/charts";
import { GridComponent, LegendComponent, TitleComponent } from "echarts/components";
import { use } from "echarts/core";
import { SVGRenderer } from "echarts/renderers";
import { COLORS, smooth } from "../ui/palette.ts";
import { COUNT_AXIS, LINE_ICON, renderChart, seriesColor, shareAxis } from "./chart-theme.ts";
import type { RunReport } from "./run-report.ts";
import { counted } from "./terminal/columns.ts";

use([LineChart, ScatterChart, GridComponent, LegendComponent, TitleComponent, SVGRenderer]);

type CurveInput = Pick<RunReport, "run" | "arm" | "seed" | "steps" | "perStep" | "evaluations"> & {
  readonly agents: readonly string[];
};

export function drawCurve(input: CurveInput): string {
  const { run, arm, seed, steps } = input;
  const rewards = input.agents.flatMap((agent, i) => rewardLines(input, agent, seriesColor(i)));
  const scores = heldOutPoints(input);
  const plotted = input.perStep.flatMap(({ reward }) => input.agents.flatMap((agent) => reward[agent] ?? []));
  const legend = [...input.agents.map((name) => ({ name, icon: LINE_ICON })), ...scores.map(({ name }) => ({ name }))];
  const title = "Reward per step, and held-out questions answered correctly";
  return renderChart(
    {
      title,
      subtitle: `${run}: ${arm}, seed ${seed}, ${counted(steps, "step")}; rewards: thin raw, thick smoothed`,
      legend,
    },
    {
      xAxis: { ...COUNT_AXIS, name: "step", min: 0, max: steps },
      yAxis: shareAxis(plotted),
      series: [...rewards, ...scores],
    },
  );
}

/** An agent's rewards: a thin raw line, and a thick smoothed one, which is in the legend. */
function rewardLines({ perStep }: CurveInput, agent: string, color: string) {
  const raw = perStep.map((step) => step.reward[agent] ?? null);
  const smoothed = smooth(raw);
  const shared = { type: "line" as const, showSymbol: false, silent: true };
  return [
    {
      ...shared,
      data: perStep.map(({ step }, i) => [step + 1, raw[i] ?? null]),
      lineStyle: { color, width: 1, opacity: 0.28 },
      z: 1,
    },
    {
      ...shared,
      name: agent,
      data: perStep.map(({ step }, i) => [step + 1, smoothed[i] ?? null]),
      lineStyle: { color, width: 2.5 },
      color,
      z: 2,
    },
  ];
}

/**
 * Open-book scores on the recipe's held-out questions, by the number of steps that trained the team: sampled as discs, greedy as diamonds. A
 * kind without scores is left out. Of several suites of a kind, only the one that was evaluated most often is drawn; the legend names it.
 */
function heldOutPoints({ evaluations }: CurveInput) {
  const points = (kind: string, greedy: boolean) => {
    const ofKind = evaluations
      .filter((one) => !one.closedBook && one.benchmark === undefined && one.n > 0)
      .filter((one) => (one.temperature === 0) === greedy);
    const timesAsked = (suite: string) => ofKind.filter((one) => one.suite === suite).length;
    const most = Math.max(0, ...ofKind.map(({ suite }) => timesAsked(suite)));
    const shown = ofKind.find(({ suite }) => timesAsked(suite) === most)?.suite;
    const data = ofKind.filter(({ suite }) => suite === shown).map((one) => [one.team, one.correct / one.n]);
    return { name: `${kind} (${shown})`, data };
  };
  const color = COLORS.heldOut[0];
  return [
    {
      ...points("held-out", false),
      type: "scatter" as const,
      symbolSize: 10,
      itemStyle: { color, opacity: 1 },
      z: 3,
    },
    {
      ...points("held-out, greedy", true),
      type: "scatter" as const,
      symbol: "diamond",
      symbolSize: 11,
      itemStyle: { color: COLORS.background[0], borderColor: color, borderWidth: 2, opacity: 1 },
      z: 3,
    },
  ].filter(({ data }) => data.length > 0);
}
