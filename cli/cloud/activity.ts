/** @file What a served cloud is doing, in one line: writes per second, runs, and the last event. Pure. */
import type { RunRecord } from "../../core/contracts/records.ts";
import { counted } from "../terminal/columns.ts";

export interface StoreSnapshot {
  /** On a monotonic clock. */
  readonly seconds: number;
  /** Table writes since the cloud started. */
  readonly writes: number;
  readonly runs: readonly Pick<RunRecord, "run" | "status" | "step">[];
}

export interface Activity {
  readonly writesPerSecond: number;
  readonly runs: number;
  readonly running: number;
  /** Undefined until something happens. */
  readonly lastEvent: { readonly text: string; readonly seconds: number } | undefined;
}

/** Compares two snapshots. Without an earlier one, nothing has happened yet. */
export function observe(now: StoreSnapshot, before: StoreSnapshot | undefined, last: Activity["lastEvent"]): Activity {
  const [event] = before ? now.runs.flatMap((run) => eventOf(run, before)) : [];
  return {
    writesPerSecond: before ? (now.writes - before.writes) / Math.max(1e-3, now.seconds - before.seconds) : 0,
    runs: now.runs.length,
    running: now.runs.filter(({ status }) => status === "running").length,
    lastEvent: event === undefined ? last : { text: event, seconds: now.seconds },
  };
}

function eventOf({ run, status, step }: StoreSnapshot["runs"][number], { runs }: StoreSnapshot): string[] {
  const before = runs.find((one) => one.run === run);
  if (!before) return [`${run} started`];
  if (before.status !== status) return [`${run} is ${status}`];
  return before.step === step ? [] : [`${run} closed step ${step - 1}`];
}

/** @param seconds now, on the clock of the snapshots. */
export function activityText({ writesPerSecond, runs, running, lastEvent }: Activity, seconds: number): string {
  const event = lastEvent ? `${lastEvent.text}, ${Math.round(seconds - lastEvent.seconds)}s ago` : "no event yet";
  return `${writesPerSecond.toFixed(1)} writes/s · ${counted(runs, "run")}, ${running} running · ${event}`;
}
