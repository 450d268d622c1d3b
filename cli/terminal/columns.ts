/** @file The columns of the live table, chosen to fit the terminal, and the formats of numbers. Pure: plain text without color codes. */
import type { RunConfig } from "../../core/contracts/config.ts";
import type { JudgeCost } from "../../core/contracts/judge.ts";
import type { EvaluationScore } from "../../core/contracts/records.ts";
import type { StepSummary } from "../../core/monitoring/step-summary.ts";
import { sum } from "../../core/statistics.ts";
import { cut } from "./flow.ts";

export interface Column {
  readonly title: string;
  readonly width: number;
  /** In a narrow terminal, columns of the highest rank are dropped first; those of rank 0 never are. */
  readonly rank: number;
  readonly tone: "plain" | "agent" | "held-out" | "faint";
  cell(row: StepRow): string;
}

export interface StepRow {
  readonly summary: StepSummary;
  /** The latest accuracy on the tracked suite; undefined before its first evaluation. */
  readonly heldOut: number | undefined;
  readonly secondsLeft: number | undefined;
}

const GAP = 2;
/** Characters of an agent's reward, such as 0.700. */
const MIN_AGENT_WIDTH = 5;

/** The columns to show in `width`. Those of rank 0 are always among them, even if the row is then too wide. */
export function columnsOf(config: RunConfig, width: number): Column[] {
  const columns = allColumns(config);
  const kept = new Set(columns);
  for (const one of [...columns].sort((a, b) => b.rank - a.rank)) {
    if (widthOf([...kept]) <= width || one.rank === 0) break;
    kept.delete(one);
  }
  return narrowed([...kept], width);
}

function allColumns(config: RunConfig): Column[] {
  const subs = Object.keys(config.agents).filter((name) => name !== config.main);
  const steps = String(config.steps);
  const agents = [config.main, ...subs].map((agent) =>
    column(agent, MIN_AGENT_WIDTH, 0, "agent", ({ summary }) => fraction(summary.reward[agent] ?? null)),
  );
  const calls = subs.map((sub) => {
    const title = subs.length > 1 ? `${sub} 0·1·2…` : "calls 0·1·2…";
    const width = Math.max(title.length, 12);
    return column(title, width, 3, "faint", ({ summary }) => callsText(summary.calls[sub] ?? [], width));
  });
  return [
    column("step", 2 * steps.length + 1, 0, "plain", ({ summary }) => `${summary.step + 1}/${steps}`),
    ...agents,
    column("correct", 4, 2, "plain", ({ summary: { rollouts, correct } }) => (rollouts === 0 ? "-" : percent(correct))),
    column("held-out", 4, 0, "held-out", ({ heldOut }) => (heldOut === undefined ? "" : percent(heldOut))),
    column("tok/s", 6, 1, "plain", ({ summary }) => count(summary.tokensPerSecond)),
    ...calls,
    column(
      "drop/dup",
      5,
      6,
      "faint",
      ({ summary }) => `${sum(Object.values(summary.dropped))}/${sum(Object.values(summary.duplicated))}`,
    ),
    column("zero-var", 4, 4, "faint", ({ summary }) => `${summary.zeroVariance}/${summary.groups}`),
    column("clip", 4, 7, "faint", ({ summary }) => percentOrNone(worst(summary, "clipFraction"))),
    column("kl", 7, 5, "faint", ({ summary }) => worst(summary, "kl")?.toExponential(1) ?? "-"),
    ...(config.staleness > 0 ? staleColumns() : []),
    column("left", 6, 1, "plain", ({ secondsLeft }) => (secondsLeft === undefined ? "" : duration(secondsLeft))),
  ];
}

/**
 * The age of the rollouts, in policy versions, and the shares of tokens that the importance-sampling correction masks
 * (ratioMask) or truncates (tisCap).
 */
const staleColumns = (): Column[] => [
  column("age", 2, 5, "faint", ({ summary: { age = {} } }) => String(Math.max(0, ...Object.values(age)))),
  column("mask/cut", 7, 6, "faint", ({ summary }) =>
    [worst(summary, "maskedFraction"), worst(summary, "truncatedFraction")].map(percentOrNone).join("/"),
  ),
];

/** `14·80·34`. If it is too wide, `14·80·…`: half a number would be another number. */
function callsText(counts: readonly number[], width: number): string {
  const whole = counts.join("·");
  return whole.length <= width ? whole : `${whole.slice(0, whole.lastIndexOf("·", width - 2) + 1)}…`;
}

function column(title: string, minWidth: number, rank: number, tone: Column["tone"], cell: Column["cell"]): Column {
  return { title, width: Math.max(title.length, minWidth), rank, tone, cell };
}

/** Narrows the agents' columns, the widest first, until the row fits or each has its minimum width. */
function narrowed(columns: readonly Column[], width: number): Column[] {
  const result = [...columns];
  while (widthOf(result) > width) {
    const agents = result.filter(({ tone, width: wide }) => tone === "agent" && wide > MIN_AGENT_WIDTH);
    const widest = agents.reduce<Column | undefined>((a, b) => (a && a.width >= b.width ? a : b), undefined);
    if (!widest) break;
    result[result.indexOf(widest)] = { ...widest, width: widest.width - 1 };
  }
  return result;
}

function widthOf(columns: readonly Column[]): number {
  return sum(columns.map(({ width }) => width + GAP));
}

/** Right-aligned in its column, and truncated if it is wider. */
export function padded(text: string, { width }: Column): string {
  return " ".repeat(GAP) + cut(text, width).padStart(width);
}

export function percent(share: number): string {
  return `${Math.round(100 * share)}%`;
}

/** A score with its interval, and the score of each run if known. */
export type DisplayedScore = Omit<EvaluationScore, "runs"> & { readonly runs?: EvaluationScore["runs"] };

/** An evaluation's accuracy with its 95% interval, and the number of runs if above 1: `78.0% [75.1, 80.6] over 3 runs`. `-` if no answer was scored. */
export function accuracy({ n, correct, runs, interval }: DisplayedScore): string {
  const points = (share: number) => (100 * share).toFixed(1);
  const over = runs && runs.length > 1 ? ` over ${runs.length} runs` : "";
  if (n === 0) return "-";
  return `${points(correct / n)}% [${points(interval.low)}, ${points(interval.high)}]${over}`;
}

/** `72 of 96`. A sum of partial scores is rounded to hundredths. */
export const correctOf = ({ n, correct }: { readonly n: number; readonly correct: number }): string =>
  `${Number(correct.toFixed(2))} of ${n}`;

/** `1,234 tokens in, 56 out, $0.0012`. */
export function costText({ inputTokens, outputTokens, usd }: JudgeCost): string {
  const dollars = usd === null ? "price unknown: set judge.usdPerMillionTokens" : `$${usd.toFixed(4)}`;
  return `${inputTokens.toLocaleString("en")} tokens in, ${outputTokens.toLocaleString("en")} out, ${dollars}`;
}

/** `1 seed`, `5 seeds`. */
export function counted(n: number, noun: string): string {
  return `${n} ${noun}${n === 1 ? "" : "s"}`;
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

function percentOrNone(share: number | undefined): string {
  return share === undefined ? "-" : percent(share);
}

/** The highest value among the agents. Undefined: no agent was trained, or the run does not mask or truncate. */
function worst(
  summary: StepSummary,
  field: "clipFraction" | "maskedFraction" | "truncatedFraction" | "kl",
): number | undefined {
  const values = Object.values(summary.training).flatMap((stats) => stats?.[field] ?? []);
  return values.length === 0 ? undefined : Math.max(0, ...values);
}
