/** @file `<agent>-loss.svg`: the loss of each step's batch, raw and smoothed, and the held-out losses as points. */
import { LineChart, ScatterChart } from "echarts/charts";
import { GridComponent, LegendComponent, TitleComponent } from "echarts/components";
import { use } from "echarts/core";
import { SVGRenderer } from "echarts/renderers";
import { heldOutLossAt, type TrainingProgress } from "../../sft/progress.ts";
import { COLORS, smooth } from "../../ui/palette.ts";
import { AXIS, COUNT_AXIS, LINE_ICON, renderChart, seriesColor } from "../chart-theme.ts";

use([LineChart, ScatterChart, GridComponent, LegendComponent, TitleComponent, SVGRenderer]);

const TRAINING = "training";
const HELD_OUT = "held-out";

export function drawLosses(agent: string, progress: TrainingProgress, learningRate: number): string {
  const { losses, evaluations, best } = progress;
  const loss = heldOutLossAt(progress, best);
  // The best checkpoint may not have the lowest held-out loss: the loss before training may be lower.
  const found =
    loss === undefined ? "nothing held out" : `best checkpoint: step ${best}, held-out loss ${loss.toFixed(4)}`;
  const legend = [{ name: TRAINING, icon: LINE_ICON }, ...(evaluations.length > 0 ? [{ name: HELD_OUT }] : [])];
  return renderChart(
    {
      title: "Loss per assistant token",
      subtitle: `${agent}: learning rate ${learningRate}, ${found}; thin: raw, thick: smoothed`,
      legend,
    },
    {
      xAxis: { ...COUNT_AXIS, name: "step", min: 0, max: losses.length },
      yAxis: { ...AXIS, type: "value", min: 0 },
      series: [...lossLines(losses), ...heldOutPoints(progress)],
    },
  );
}

/** A thin raw line, and a thick smoothed one that the legend names. The loss of a step is measured before its update. */
function lossLines(losses: readonly number[]) {
  const color = seriesColor(0);
  const shared = { type: "line" as const, showSymbol: false, silent: true };
  const points = (values: readonly (number | null)[]) => values.map((loss, step) => [step, loss]);
  return [
    { ...shared, data: points(losses), lineStyle: { color, width: 1, opacity: 0.28 }, z: 1 },
    { ...shared, name: TRAINING, data: points(smooth(losses)), lineStyle: { color, width: 2.5 }, color, z: 2 },
  ];
}

function heldOutPoints({ evaluations }: TrainingProgress) {
  if (evaluations.length === 0) return [];
  const data = evaluations.map(({ step, loss }) => [step, loss]);
  const itemStyle = { color: COLORS.heldOut[0], opacity: 1 };
  return [{ type: "scatter" as const, name: HELD_OUT, data, symbolSize: 10, itemStyle, z: 3 }];
}
