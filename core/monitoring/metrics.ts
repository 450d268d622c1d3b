/**
 * @file The metrics of a run, under the names that docs/trackers.md lists. Pure functions of the summaries of steps and of finished
 * evaluations, so that every tracker and `metrics.jsonl` agree.
 */
import * as z from "zod";
import type { StepSummary } from "./step-summary.ts";
import type { TeamEvaluation } from "./team-evaluation.ts";

/** One line of `metrics.jsonl`. */
export const MetricLine = z.strictObject({
  /** Closed steps so far: 1 after the first step, 0 for an evaluation of the untrained team. */
  step: z.int().nonnegative(),
  /**
   * Wall-clock milliseconds: when the line was written, or, for a step that `mgrpo track` adds, when its last rollout was scored, if that is
   * recorded.
   */
  time: z.int(),
  /** `step`, or `eval/<suite>`. Of lines with the same source and step, the newest counts. */
  source: z.string(),
  metrics: z.record(z.string(), z.number()),
});
export type MetricLine = z.infer<typeof MetricLine>;

type UntimedMetricLine = Pick<MetricLine, "step" | "source" | "metrics">;

export function stepMetrics(summary: StepSummary): UntimedMetricLine {
  const { rollouts, excluded, groups } = summary;
  const hasRollouts = rollouts > 0;
  const metrics = defined({
    "rollout/correct": hasRollouts ? summary.correct : null,
    "rollout/well_formed": hasRollouts ? summary.wellFormed : null,
    "rollout/lost": excluded,
    "rollout/tokens": hasRollouts ? summary.sampledTokens / rollouts : null,
    "group/zero_std_frac": groups > 0 ? summary.zeroVariance / groups : null,
    "time/step": summary.seconds,
    "perf/tokens_per_s": summary.tokensPerSecond,
    "judge/usd": summary.judged?.usd,
    "cost/usd": summary.usd,
    ...prefixed("reward", "mean", summary.reward),
    ...perAgent(summary),
  });
  return { step: summary.step + 1, source: "step", metrics };
}

function perAgent({
  calls,
  duplicated,
  dropped,
  age = {},
  training,
  shared = {},
  workers,
}: StepSummary): Record<string, Maybe> {
  const trained = Object.entries(training).flatMap(([agent, stats]): [string, Maybe][] => [
    [`train/${agent}/loss`, stats?.loss],
    [`train/${agent}/kl`, stats?.kl],
    [`train/${agent}/grad_norm`, stats?.gradientNorm],
    [`train/${agent}/entropy`, stats?.entropy],
    [`train/${agent}/clip_frac`, stats?.clipFraction],
    [`train/${agent}/masked_frac`, stats?.maskedFraction],
    [`train/${agent}/truncated_frac`, stats?.truncatedFraction],
    [`train/${agent}/staleness`, age[agent]],
    [`train/${agent}/ratio_deviation`, stats?.maxRatioDeviation],
    [`train/${agent}/trajectories`, stats?.trajectories],
    [`train/${agent}/action_tokens`, stats?.actionTokens],
  ]);
  const timed = Object.entries(workers).flatMap(
    ([agent, { sampling, training: trainingSeconds, waiting, turns }]): [string, Maybe][] => [
      [`time/${agent}/sampling`, sampling],
      [`time/${agent}/training`, trainingSeconds],
      [`time/${agent}/waiting`, waiting],
      [`time/${agent}/turn_sampling`, turns && turns.sampling / turns.turns],
      [`time/${agent}/turn_tools`, turns && turns.tools.seconds / turns.tools.turns],
      [`time/${agent}/turn_delegations`, turns && turns.delegations.seconds / turns.delegations.turns],
    ],
  );
  return {
    ...Object.fromEntries([...trained, ...timed]),
    ...prefixed(
      "policy",
      "grad_norm",
      mapValues(shared, ({ gradientNorm }) => gradientNorm),
    ),
    ...prefixed("rollout", "calls", mapValues(calls, meanOf)),
    ...prefixed("align", "duplicated", duplicated),
    ...prefixed("align", "dropped", dropped),
  };
}

export function evaluationMetrics({ team, suite, n, correct, interval }: TeamEvaluation): UntimedMetricLine {
  const metrics = {
    [`eval/${suite}/n`]: n,
    ...(n > 0 && {
      [`eval/${suite}/success`]: correct / n,
      [`eval/${suite}/success_low`]: interval.low,
      [`eval/${suite}/success_high`]: interval.high,
    }),
  };
  return { step: team, source: `eval/${suite}`, metrics };
}

type Maybe = number | null | undefined;

/** A metric that was not measured is absent. */
function defined(metrics: Readonly<Record<string, Maybe>>): Record<string, number> {
  return Object.fromEntries(
    Object.entries(metrics).filter((entry): entry is [string, number] => Number.isFinite(entry[1])),
  );
}

const prefixed = (group: string, name: string, values: Readonly<Record<string, Maybe>>): Record<string, Maybe> =>
  Object.fromEntries(Object.entries(values).map(([agent, value]) => [`${group}/${agent}/${name}`, value]));

const mapValues = <A, B>(values: Readonly<Record<string, A>>, map: (value: A) => B): Record<string, B> =>
  Object.fromEntries(Object.entries(values).map(([key, value]) => [key, map(value)]));

/** The mean of a histogram, whose entry i is the number of values equal to i. */
function meanOf(histogram: readonly number[]): number | null {
  const n = histogram.reduce((sum, count) => sum + count, 0);
  return n === 0 ? null : histogram.reduce((sum, count, i) => sum + i * count, 0) / n;
}
