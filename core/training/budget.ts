/**
 * @file The hard stop. A run that has spent its `budget` is halted with what it spent and how to go on; workers, and the evaluations that
 * they make, end with it. The clock's round looks, so a run passes its limit by at most one round. It ends training: once
 * the last step has closed the run is finished, and the last team's evaluations are made; by fleets, as long as the budget lasts.
 *
 *     hours     by the store's clock since start-run founded the run (RUN.startedAt). Hours in which it stood still count too: whoever
 *               limits them wants it to be over by then.
 *     dollars   what tools, judges and agents behind APIs were paid (bills.ts), and over all WORKER records, those of the dead included: the worker's
 *               heartbeats, each `heartbeatSeconds` long, at the price of its agent. That is what records can tell, and a little less than
 *               a bill will: what a machine costs before its worker registers and after it left, and what stores and functions cost, is in
 *               no record. Nothing is counted for a time in which no worker lived.
 *
 * The config is immutable, so RUN holds the limits: the config's to begin with, raised only by `resume --extend-hours` and
 * `--extend-usd` (`extendBudget` in writes.ts).
 */
import type { RunConfig } from "../contracts/config.ts";
import type { RunRecord, WorkerRecord } from "../contracts/records.ts";
import { MgrpoError } from "../errors.ts";
import type { Bills } from "./bills.ts";
import { type Command, change } from "./commands.ts";
import { endRun } from "./writes.ts";

export interface Spending extends Bills {
  /** Since the run began. */
  readonly hours: number;
  readonly workerHours: number;
  /** In all: the bills, and the worker hours where they have a price. */
  readonly usd: number;
}

/** What a run may spend; null: as much as it takes. */
export type Limits = Pick<RunRecord, "maxHours" | "maxUsd">;

/** Adds to a run's limits. */
export interface Extension {
  readonly hours?: number | undefined;
  readonly usd?: number | undefined;
  /** Of what its tools may ask of backends (tool-budget.ts). */
  readonly toolCalls?: number | undefined;
  readonly toolUsd?: number | undefined;
}

export const extendsAny = (extension: Extension): boolean =>
  Object.values(extension).some((more) => more !== undefined);

/** What the run has spent by now. `storeTime` in ms. */
export function spending(
  { budget, liveness }: RunConfig,
  { startedAt }: RunRecord,
  workers: readonly WorkerRecord[],
  bills: Bills,
  storeTime: number,
): Spending {
  const hoursOf = ({ counter }: WorkerRecord) => (counter * liveness.heartbeatSeconds) / 3600;
  const priceOf = ({ agent }: WorkerRecord) => budget.usdPerWorkerHour[agent] ?? budget.usdPerWorkerHour["*"] ?? 0;
  return {
    hours: (storeTime - startedAt) / 3_600_000,
    workerHours: workers.reduce((sum, worker) => sum + hoursOf(worker), 0),
    usd: workers.reduce((sum, worker) => sum + hoursOf(worker) * priceOf(worker), sumOf(bills)),
    ...bills,
  };
}

/** The share of what it may spend that a run has spent, of hours or of dollars, whichever is more; 0 where there is no limit. */
export function shareSpent({ maxHours, maxUsd }: Limits, { hours, usd }: Spending): number {
  const share = (used: number, limit: number | null) => (limit === null ? 0 : used / limit);
  return Math.max(share(hours, maxHours), share(usd, maxUsd));
}

/** Dollars. */
export const sumOf = ({ toolsUsd, judgesUsd, agentsUsd }: Bills): number => toolsUsd + judgesUsd + agentsUsd;

/** Which limits are reached, and how to go on; undefined while there is something left. */
export function overspent({ maxHours, maxUsd }: Limits, spent: Spending): string | undefined {
  const { hours, usd } = spent;
  const reached = [
    maxHours !== null && hours >= maxHours
      ? { what: `${hours.toFixed(2)} of ${shown(maxHours)} hours since it began`, option: "--extend-hours <hours>" }
      : [],
    maxUsd !== null && usd >= maxUsd
      ? {
          what: `$${usd.toFixed(2)} of $${shown(maxUsd)} for ${billed(spent)}`,
          option: "--extend-usd <dollars>",
        }
      : [],
  ].flat();
  if (reached.length === 0) return undefined;
  const list = (values: string[]) => values.join(" and ");
  return `its budget is spent: ${list(reached.map(({ what }) => what))}; allow more with ${list(reached.map(({ option }) => option))}`;
}

/** `2.50 worker hours, $0.80 of tools, $1.20 of judges`, as far as there are such. */
export function billed({ workerHours, toolsUsd, judgesUsd, agentsUsd }: Omit<Spending, "hours" | "usd">): string {
  const bills = [
    [toolsUsd, "tools"],
    [judgesUsd, "judges"],
    [agentsUsd, "agents behind APIs"],
  ] as const;
  const paid = bills.filter(([usd]) => usd > 0).map(([usd, whom]) => `$${usd.toFixed(2)} of ${whom}`);
  return [`${workerHours.toFixed(2)} worker hours`, ...paid].join(", ");
}

/** Halts a running run that has reached a limit. */
export function haltOverspent(
  config: RunConfig,
  run: RunRecord,
  workers: readonly WorkerRecord[],
  bills: Bills,
  storeTime: number,
): Command[] {
  const reason = overspent(run, spending(config, run, workers, bills, storeTime));
  return reason === undefined ? [] : [change(endRun(run.run, "halted", reason))];
}

/** The limits, raised by so much from where they are, or from what is spent if that is more. Refused where there is no limit. */
export function extended(run: RunRecord, spent: Spending, extension: Extension): Limits {
  const raise = (limit: number | null, used: number, more: number | undefined, setting: string) => {
    if (more === undefined) return limit;
    if (limit !== null) return Math.max(limit, used) + more;
    throw new MgrpoError("config-invalid", `run '${run.run}' has no ${setting} to extend: leave the option out`);
  };
  return {
    maxHours: raise(run.maxHours, spent.hours, extension.hours, "budget.hours"),
    maxUsd: raise(run.maxUsd, spent.usd, extension.usd, "budget.usd"),
  };
}

const shown = (limit: number) => String(Number(limit.toPrecision(4)));
