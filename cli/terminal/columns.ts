/** @file The columns of the live table: one row per step, narrower on a narrow terminal. Pure: text in, text out, no colour codes. */
import type { RunConfig } from "../../core/contracts/config.ts";
import type { JudgeCost } from "../../core/contracts/judge.ts";
import type { EvaluationScore } from "../../core/contracts/records.ts";
import type { StepSummary } from "../step-summary.ts";

export interface Column {
  readonly title: string;
  readonly width: number;
  /** Columns of the highest number go first when the terminal is too narrow. */
  readonly rank: number;
  readonly tone: "plain" | "agent" | "held-out" | "faint";
  cell(row: Row): string;
}

export interface Row {
  readonly summary: StepSummary;
  /** The newest held-out share at temperature 1; undefined before the first. */
  readonly heldOut: number | undefined;
  readonly secondsLeft: number | undefined;
}

const GAP = 2;

export function columnsOf(config: RunConfig, width: number): Column[] {
  const subs = Object.keys(config.agents).filter((name) => name !== config.main);
  const steps = String(config.steps);
  const total = (counts: Record<string, number>) => Object.values(counts).reduce((sum, n) => sum + n, 0);
  const column = (title: string, least: number, rank: number, tone: Column["tone"], cell: Column["cell"]): Column => ({
    title,
    width: Math.max(title.length, least),
    rank,
    tone,
    cell,
  });
  const columns = [
    column("step", 2 * steps.length + 1, 0, "plain", ({ summary }) => `${summary.step + 1}/${steps}`),
    ...[config.main, ...subs].map((agent) =>
      column(agent, 5, 0, "agent", ({ summary }) => fraction(summary.reward[agent] ?? null)),
    ),
    column("right", 4, 2, "plain", ({ summary }) => percent(summary.correct)),
    column("held-out", 4, 0, "held-out", ({ heldOut }) => (heldOut === undefined ? "" : percent(heldOut))),
    column("tok/s", 5, 1, "plain", ({ summary }) => count(summary.tokensPerSecond)),
    ...subs.map((sub) =>
      column(subs.length > 1 ? `${sub} d=0·1·2…` : "calls 0·1·2…", 12, 3, "faint", ({ summary }) =>
        (summary.calls[sub] ?? []).join("·"),
      ),
    ),
    column("drop/dup", 5, 6, "faint", ({ summary }) => `${total(summary.dropped)}/${total(summary.duplicated)}`),
    column("flat", 4, 4, "faint", ({ summary }) => `${summary.zeroVariance}/${summary.groups}`),
    column("clip", 4, 7, "faint", ({ summary }) => percent(worst(summary, "clipFraction"))),
    column("kl", 7, 5, "faint", ({ summary }) => worst(summary, "kl").toExponential(1)),
    column("left", 6, 1, "plain", ({ secondsLeft }) => (secondsLeft === undefined ? "" : duration(secondsLeft))),
  ];
  const kept = new Set(columns);
  const wide = () => [...kept].reduce((sum, one) => sum + one.width + GAP, 0);
  for (const one of [...columns].sort((a, b) => b.rank - a.rank)) {
    if (wide() <= width || one.rank === 0) break;
    kept.delete(one);
  }
  return [...kept];
}

/** Pads to the column's width, to the right. */
export function padded(text: string, column: Column): string {
  return " ".repeat(GAP) + text.padStart(column.width);
}

export function percent(share: number): string {
  return `${Math.round(100 * share)}%`;
}

/** A share, its interval, and the runs it comes from, where there are such. */
export type Shown = Omit<EvaluationScore, "runs"> & { readonly runs?: EvaluationScore["runs"] };

/** `78.0% [75.1, 80.6]`, and over how many runs if they are several: an evaluation's accuracy and its 95 % interval. */
export function accuracy({ n, correct, runs, interval }: Shown): string {
  const points = (share: number) => (100 * share).toFixed(1);
  const over = runs && runs.length > 1 ? ` over ${runs.length} runs` : "";
  return `${n === 0 ? "-" : `${points(correct / n)}%`} [${points(interval.low)}, ${points(interval.high)}]${over}`;
}

/** `1,234 tokens in, 56 out, $0.0012`. */
export function costText({ inputTokens, outputTokens, usd }: JudgeCost): string {
  const dollars = usd === null ? "price unknown: set judge.usdPerMillionTokens" : `$${usd.toFixed(4)}`;
  return `${inputTokens.toLocaleString("en")} tokens in, ${outputTokens.toLocaleString("en")} out, ${dollars}`;
}

/** `1 seed`, `5 seeds`. */
export function counted(n: number, what: string): string {
  return `${n} ${what}${n === 1 ? "" : "s"}`;
}

/** `2m13s`, `1h02m`. */
export function duration(seconds: number): string {
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole}s`;
  const two = (n: number) => String(n).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)}m${two(whole % 60)}s`;
  return `${Math.floor(whole / 3600)}h${two(Math.floor((whole % 3600) / 60))}m`;
}

function fraction(value: number | null): string {
  return value === null ? "-" : value.toFixed(3);
}

function count(value: number | null): string {
  return value === null ? "-" : Math.round(value).toLocaleString("en");
}

function worst(summary: StepSummary, field: "clipFraction" | "kl"): number {
  return Math.max(0, ...Object.values(summary.training).map((stats) => stats?.[field] ?? 0));
}
