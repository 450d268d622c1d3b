/** @file The points of a comparison's charts. Pure; bands.ts draws them. */
import { shareEstimate } from "../../core/training/bootstrap.ts";
import { smooth } from "../../ui/palette.ts";
import type { Band } from "./bands.ts";
import { comparedSuites } from "./measure.ts";
import type { Entry } from "./plan.ts";
import type { FinishedRun } from "./records.ts";
import { type ArmRuns, cumulativeTokens, evaluated } from "./summary.ts";

/**
 * One curve per arm. y: the share of questions answered correctly on the first arm's `curveSuite`, with a 95% interval over seeds and
 * questions. x: thousands of sampled tokens, the mean of the seeds. There is one point per evaluation that all seeds have; the last point takes
 * each seed's last evaluation.
 */
export function heldOutBands(arms: readonly ArmRuns[]): Band[] {
  const nameOf = namer(arms);
  const suite = curveSuite(arms[0]?.runs ?? []);
  return arms.map(({ entry, runs }) => {
    const evaluations = runs.map((run) => evaluationsOf(run, suite?.suite));
    const length = Math.min(...evaluations.map((list) => list.length));
    const columns = Array.from({ length }, (_, i) =>
      evaluations.flatMap((list) => (i === length - 1 ? list.at(-1) : list[i]) ?? []),
    );
    return {
      name: nameOf(entry),
      points: columns.flatMap((column) => {
        const name = ["compare", entry.label, suite?.suite ?? "", column[0]?.team ?? 0];
        const estimate = shareEstimate(
          column.map(({ questions }) => questions),
          [...name, "curve"],
        );
        const x = column.reduce((sum, { sampled }) => sum + sampled, 0) / column.length / 1000;
        return estimate ? [{ x, y: estimate.value, low: estimate.low, high: estimate.high }] : [];
      }),
    };
  });
}

/** The suite of the curves: of the suites above temperature 0, the one evaluated most often, such as a development split; if none is, the first. */
export function curveSuite(runs: readonly FinishedRun[]): ReturnType<typeof comparedSuites>[number] | undefined {
  const [first, ...others] = comparedSuites(runs.map(evaluated));
  const times = (suite: string) => runs[0]?.heldOut.filter((one) => one.suite === suite).length ?? 0;
  return others
    .filter(({ temperature }) => temperature > 0)
    .reduce((most, one) => (most && times(one.suite) > times(most.suite) ? one : most), first);
}

/** The main agent's smoothed reward per step: mean, minimum and maximum over the seeds that took the step. */
export function rewardBands(arms: readonly ArmRuns[], main: string): Band[] {
  const nameOf = namer(arms);
  return arms.map(({ entry, runs }) => {
    const curves = runs.map(({ report }) => smooth(report.perStep.map(({ reward }) => reward[main] ?? null)));
    const steps = Math.max(0, ...curves.map((curve) => curve.length));
    return {
      name: nameOf(entry),
      points: Array.from({ length: steps }, (_, step) => {
        const values = curves.flatMap((curve) => curve[step] ?? []);
        const y = values.reduce((sum, value) => sum + value, 0) / values.length;
        return { x: step + 1, y, low: Math.min(...values), high: Math.max(...values) };
      }).filter(({ y }) => Number.isFinite(y)),
    };
  });
}

/**
 * Short legend names. An unchanged arm has its own name. A varied one has its setting, with as much of the path as tells the lines apart and
 * without the keys and quotes of JSON, after the arm's name if there are several arms.
 */
function namer(arms: readonly ArmRuns[]): (entry: Entry) => string {
  const entries = arms.map(({ entry }) => entry);
  const hasOneArm = new Set(entries.map(({ arm }) => arm)).size === 1;
  const nameWith =
    (words: number) =>
    ({ arm, varied }: Entry): string => {
      if (varied === undefined) return arm;
      const [path = "", value = ""] = varied.split(/=(.*)/s);
      const end = path.split(".").slice(-words).join(".");
      const short = `${end}=${value.replace(/"[^"]*":/g, "").replace(/["{}]/g, "")}`;
      return hasOneArm ? short : `${arm}, ${short}`;
    };
  const depth = Math.max(1, ...entries.map(({ varied = "" }) => varied.split(".").length));
  let words = 1;
  while (words < depth && new Set(entries.map(nameWith(words))).size < entries.length) words++;
  return nameWith(words);
}

/** In the order of training. */
function evaluationsOf(run: FinishedRun, suite: string | undefined) {
  const sampled = cumulativeTokens(run);
  return run.heldOut
    .filter((one) => one.suite === suite)
    .sort((a, b) => a.team - b.team)
    .map(({ team, questions }) => ({ team, questions, sampled: sampled[team] ?? 0 }));
}
