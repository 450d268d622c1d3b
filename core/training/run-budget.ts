/**
 * @file The hard stop. A run that has spent its `budget` is halted; the reason says what it spent and how to continue. Its workers and
 * evaluations stop too. Scheduled ticks check the budget, so training can exceed it by what the run spends between two ticks and until its
 * workers notice the halt. The budget limits training: a run whose last step has closed is finished, and its last team is evaluated whatever
 * is left of the budget. But once the budget is spent, no fleet instance is requested or kept for that evaluation (fleets.ts).
 *
 *     hours     by the store's clock since start-run (RUN.startedAt). Idle and halted hours count too.
 *     dollars   the cost of tools, judges and agents behind APIs (api-spending.ts), plus the time of all workers, dead ones included, at their
 *               agent's price. A worker's time is its number of heartbeats times `heartbeatSeconds`. A cloud bill is a little higher: the
 *               cost of machines before a worker registers and after it leaves, and of stores and functions, is not recorded.
 *
 * The config is immutable, so RUN holds the limits: first the config's, raised only by `--budget-hours` and `--budget-usd`
 * (`raiseBudget` in writes.ts). These give the new limit, not what is added, so that a repeat changes nothing.
 */
import type { RunConfig } from "../contracts/config.ts";
import type { RunRecord, WorkerRecord } from "../contracts/records.ts";
import { MgrpoError } from "../errors.ts";
import type { ApiSpending } from "./api-spending.ts";
import { allHeartbeats } from "./past-workers.ts";
import { type StoreCommand, update } from "./store-commands.ts";
import { haltForBudget } from "./writes.ts";

export interface Spending extends ApiSpending {
  /** Since the run started. */
  readonly hours: number;
  readonly workerHours: number;
  /** The total: the API spending, and the worker hours at their prices. */
  readonly usd: number;
}

/** What a run may spend. Null: no limit. */
export type RunLimits = Pick<RunRecord, "maxHours" | "maxUsd">;

/** The limits that `--budget-…` sets: totals, none below the present limit. Absent: unchanged. */
export interface RaisedBudget {
  readonly hours?: number | undefined;
  readonly usd?: number | undefined;
  /** Requests of tools to backends, free ones included (tool-spending.ts). */
  readonly toolCalls?: number | undefined;
  readonly toolUsd?: number | undefined;
}

export const raisesBudget = (raised: RaisedBudget): boolean =>
  Object.values(raised).some((limit) => limit !== undefined);

/** What the run has spent so far. `record`: read before `workers`. `storeTime` in ms. */
export function spending(
  { budget, liveness }: RunConfig,
  record: RunRecord,
  workers: readonly WorkerRecord[],
  apiSpending: ApiSpending,
  storeTime: number,
): Spending {
  const priceOf = (agent: string) => budget.usdPerWorkerHour[agent] ?? budget.usdPerWorkerHour["*"] ?? 0;
  const hoursByAgent = Object.entries(allHeartbeats(record, workers)).map(
    ([agent, heartbeats]) => [agent, (heartbeats * liveness.heartbeatSeconds) / 3600] as const,
  );
  return {
    hours: (storeTime - record.startedAt) / 3_600_000,
    workerHours: hoursByAgent.reduce((sum, [, ofAgent]) => sum + ofAgent, 0),
    usd: hoursByAgent.reduce((sum, [agent, ofAgent]) => sum + ofAgent * priceOf(agent), apiUsd(apiSpending)),
    ...apiSpending,
  };
}

/** The share of its limits that a run has spent: of hours or of dollars, whichever is larger. 0 without a limit. */
export function shareSpent({ maxHours, maxUsd }: RunLimits, { hours, usd }: Spending): number {
  const share = (used: number, limit: number | null) => (limit === null ? 0 : used / limit);
  return Math.max(share(hours, maxHours), share(usd, maxUsd));
}

/** Dollars spent on tools, judges and agents behind APIs together. */
export const apiUsd = ({ toolsUsd, judgesUsd, agentsUsd }: ApiSpending): number => toolsUsd + judgesUsd + agentsUsd;

/** Which limits are reached, and how to continue. Undefined while there is budget left. */
export function overBudgetReason({ maxHours, maxUsd }: RunLimits, spent: Spending): string | undefined {
  const { hours, usd } = spent;
  const reached = [
    maxHours !== null && hours >= maxHours
      ? {
          what: `${formatSpent(hours)} of ${formatLimit(maxHours)} hours since it began`,
          option: "--budget-hours <hours in all>",
        }
      : [],
    maxUsd !== null && usd >= maxUsd
      ? {
          what: `$${formatSpent(usd)} of $${formatLimit(maxUsd)} for ${describeSpending(spent)}`,
          option: "--budget-usd <dollars in all>",
        }
      : [],
  ].flat();
  if (reached.length === 0) return undefined;
  const list = (values: string[]) => values.join(" and ");
  return `its budget is spent: ${list(reached.map(({ what }) => what))}; allow more with ${list(reached.map(({ option }) => option))}`;
}

/** `2.50 worker hours, $0.80 of tools, $1.20 of judges`. API costs of zero are left out. */
export function describeSpending({
  workerHours,
  toolsUsd,
  judgesUsd,
  agentsUsd,
}: Omit<Spending, "hours" | "usd">): string {
  const kinds = [
    [toolsUsd, "tools"],
    [judgesUsd, "judges"],
    [agentsUsd, "agents behind APIs"],
  ] as const;
  const paid = kinds.filter(([usd]) => usd > 0).map(([usd, kind]) => `$${usd.toFixed(2)} of ${kind}`);
  return [`${workerHours.toFixed(2)} worker hours`, ...paid].join(", ");
}

/** Halts the run if it has reached a limit. */
export function haltIfOverBudget(
  config: RunConfig,
  run: RunRecord,
  workers: readonly WorkerRecord[],
  apiSpending: ApiSpending,
  storeTime: number,
): StoreCommand[] {
  const reason = overBudgetReason(run, spending(config, run, workers, apiSpending, storeTime));
  return reason === undefined ? [] : [update(haltForBudget(run, reason))];
}

/** The run's limits after the user has raised them. Refused: see `raisedLimit`. */
export function raisedLimits(run: RunRecord, spent: Spending, { hours, usd }: RaisedBudget): RunLimits {
  return {
    maxHours: raisedLimit(run.run, "budget.hours", { limit: run.maxHours, used: spent.hours, raised: hours }),
    maxUsd: raisedLimit(run.run, "budget.usd", { limit: run.maxUsd, used: spent.usd, raised: usd }),
  };
}

/** The limit of one setting. Throws if `raised` is below the present limit or not above what is spent, or if the setting has no limit so far. */
export function raisedLimit(
  run: string,
  setting: string,
  { limit, used, raised }: { limit: number | null; used: number; raised: number | undefined },
): number | null {
  if (raised === undefined) return limit;
  const refuse = (why: string) => new MgrpoError("config-invalid", `run '${run}' ${why}`);
  if (limit === null) throw refuse(`has no ${setting} to raise: leave the option out`);
  if (raised <= used)
    throw refuse(`has already spent ${formatLimit(used)} of ${setting}=${formatLimit(limit)}: give a higher limit`);
  if (raised < limit)
    throw refuse(`already has ${setting} ${formatLimit(limit)}: give a higher limit, or leave the option out`);
  return raised;
}

/** To two decimals, or to two significant digits where that is finer. */
const formatSpent = (spent: number) => (spent < 0.1 ? String(Number(spent.toPrecision(2))) : spent.toFixed(2));
/** To two decimals, or to four significant digits where that is finer. */
const formatLimit = (limit: number) => String(Number(limit < 100 ? limit.toPrecision(4) : limit.toFixed(2)));
