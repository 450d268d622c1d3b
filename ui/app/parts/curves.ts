/** @file The curves of a run, from the summaries of its steps and its evaluations. Pure. */
import type { StepSummary } from "../../../core/monitoring/step-summary.ts";
import { smooth } from "../../palette.ts";
import type { RunView } from "../../views.ts";
import type { ChartProps, Line } from "./chart-props.ts";

type Curve = Omit<ChartProps, "onPick">;

const SHARE_BOUNDS: readonly [number, number] = [0, 1];
/** The histogram of invocations covers at most this many of the newest steps. */
const RECENT_STEPS = 10;

/** Step s is drawn at s + 1, and the evaluation of the team after s steps at s. */
export function curvesOf(view: RunView): Curve[] {
  const { perStep, agents } = view;
  const names = agents.map(({ name }) => name);
  const perAgent = (title: string, of: (step: StepSummary, agent: string) => number | null | undefined): Curve => ({
    title,
    lines: names.map((name, color) => ({ name, color, points: points(perStep, (step) => of(step, name) ?? null) })),
  });
  const overall = (title: string, of: (step: StepSummary) => number | null): Curve => ({
    title,
    lines: [{ name: title, color: 0, points: points(perStep, of) }],
  });
  const rewards = rewardLines(view, names);
  const curves = [
    { title: "reward, and held-out accuracy", lines: rewards, bounds: rewardBounds(rewards) },
    { title: "shares of rollouts and groups", lines: shareLines(perStep), bounds: SHARE_BOUNDS },
    perAgent("KL between sampler and trainer, nats per token", ({ training }, agent) => training[agent]?.kl),
    perAgent("gradient norm", ({ training }, agent) => training[agent]?.gradientNorm),
    perAgent("entropy of the sampler, nats per token", ({ training }, agent) => training[agent]?.entropy),
    perAgent("clip fraction", ({ training }, agent) => training[agent]?.clipFraction),
    perAgent("share of tokens masked by ratioMask", ({ training }, agent) => training[agent]?.maskedFraction),
    perAgent("share of importance weights truncated", ({ training }, agent) => training[agent]?.truncatedFraction),
    perAgent("age of rollouts, versions", ({ age }, agent) => age?.[agent]),
    overall("sampled tokens in the batch per second", ({ tokensPerSecond }) => tokensPerSecond),
    overall("seconds per step", ({ seconds }) => seconds),
    ...names.map((name) => timeCurve(name, perStep)),
    callsCurve(perStep),
  ];
  return curves.filter(({ lines }) => lines.some((line) => line.points.some(([, y]) => y !== null)));
}

const points = (perStep: readonly StepSummary[], of: (step: StepSummary) => number | null): Line["points"] =>
  perStep.map((step) => [step.step + 1, of(step)]);

function rewardLines({ perStep, evaluations }: RunView, names: readonly string[]): Line[] {
  const rewards = names.flatMap((name, color): Line[] => {
    const raw = points(perStep, ({ reward }) => reward[name] ?? null);
    const smoothed = smooth(raw.map(([, y]) => y));
    return [
      { name, color, points: raw, kind: "raw" },
      { name, color, points: raw.map(([x], i) => [x, smoothed[i] ?? null]) },
    ];
  });
  const held = evaluations.filter(({ closedBook, n }) => !closedBook && n > 0);
  const suites = [...new Set(held.map(({ suite }) => suite))];
  return [
    ...rewards,
    ...suites.map(
      (suite, i): Line => ({
        name: suite,
        color: i === 0 ? "heldOut" : names.length + i,
        kind: "points",
        points: held.filter((one) => one.suite === suite).map(({ team, correct, n }) => [team, correct / n]),
      }),
    ),
  ];
}

/** The bounds cover 0 to 1, and any reward outside: a penalty can make it negative, and its parts may sum to more than 1. */
function rewardBounds(lines: readonly Line[]): readonly [number, number] {
  const values = lines.flatMap((line) => line.points.flatMap(([, y]) => y ?? []));
  return values.reduce<readonly [number, number]>(
    ([low, high], value) => [Math.min(low, value), Math.max(high, value)],
    SHARE_BOUNDS,
  );
}

function shareLines(perStep: readonly StepSummary[]): Line[] {
  const zeroVarianceShare = ({ zeroVariance, groups }: StepSummary) => (groups === 0 ? null : zeroVariance / groups);
  const shareOf = (part: "correct" | "wellFormed") => (step: StepSummary) => (step.rollouts === 0 ? null : step[part]);
  return [
    { name: "correct", color: 0, points: points(perStep, shareOf("correct")) },
    { name: "well-formed", color: 4, points: points(perStep, shareOf("wellFormed")) },
    { name: "zero-variance groups", color: 1, points: points(perStep, zeroVarianceShare) },
  ];
}

function timeCurve(agent: string, perStep: readonly StepSummary[]): Curve {
  const part = (name: "sampling" | "training" | "waiting", color: number): Line => ({
    name,
    color,
    kind: "bar",
    points: points(perStep, ({ workers }) => workers[agent]?.[name] ?? null),
  });
  const lines = [part("sampling", 0), part("training", 1), part("waiting", 5)];
  return { title: `seconds of the worker that trains ${agent}`, lines };
}

/** The histogram of d_k over the newest steps. */
function callsCurve(perStep: readonly StepSummary[]): Curve {
  const recent = perStep.slice(-RECENT_STEPS);
  const subs = Object.keys(recent.at(-1)?.calls ?? {});
  return {
    title: `rollouts by invocations, newest ${recent.length === 1 ? "step" : `${recent.length} steps`}`,
    xName: "invocations",
    lines: subs.map((name, i) => ({ name, color: i + 1, kind: "bar", points: histogram(recent, name) })),
  };
}

function histogram(steps: readonly StepSummary[], sub: string): Line["points"] {
  const counts = steps.map(({ calls }) => calls[sub] ?? []);
  const longest = Math.max(0, ...counts.map(({ length }) => length));
  return Array.from({ length: longest }, (_, d) => [d, counts.reduce((sum, one) => sum + (one[d] ?? 0), 0)]);
}
