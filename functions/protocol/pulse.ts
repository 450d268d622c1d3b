/**
 * @file What the clock's alarms go by: how many runs are under way, how many of their agents no live worker serves, and how much of its
 * budget the one that comes nearest to its end has spent.
 */
import { shareSpent, spending } from "../../core/training/budget.ts";
import type { Survey } from "./survey.ts";

export interface Pulse {
  readonly running: number;
  /** Agents of running runs whose workers are all gone: their last heartbeat is older than the lease. */
  readonly unserved: number;
  /** The largest share of a budget that a run has spent; 0 where none has a budget. */
  readonly spent: number;
}

export function pulseOf({ runs, storeTime }: Survey): Pulse {
  const running = runs.filter(({ record }) => record.status === "running");
  const unserved = running.flatMap(({ config, workers }) => {
    const served = new Set(workers.filter(({ state }) => state !== "dead").map(({ agent }) => agent));
    return Object.keys(config.agents).filter((name) => !served.has(name));
  });
  const spent = running.map(({ config, record, workers, bills }) =>
    shareSpent(record, spending(config, record, workers, bills, storeTime)),
  );
  return { running: running.length, unserved: unserved.length, spent: Math.max(0, ...spent) };
}
