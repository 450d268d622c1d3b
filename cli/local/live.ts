/**
 * @file What lists of runs show about a run, read once from its records: its cost, its newest heartbeat, what it is doing or waiting for, and
 * why it has stalled.
 */
import type { RunConfig } from "../../core/contracts/config.ts";
import { tableKeys } from "../../core/contracts/keys.ts";
import { parse } from "../../core/contracts/parse.ts";
import { ListedRun, type WorkerRecord } from "../../core/contracts/records.ts";
import { describeStall, StallDetector } from "../../core/monitoring/stall.ts";
import { waitingFor } from "../../core/monitoring/waiting.ts";
import type { Store } from "../../core/ports.ts";
import { readWait } from "./follow.ts";
import { readRun, readSpending, readState } from "./read-records.ts";
import { readStall } from "./stall.ts";

export interface LiveRun {
  /** What it has cost so far. */
  readonly usd: number;
  /** Seconds since a scheduled tick last saw a heartbeat of a living worker; null: it has seen none, or the run no longer trains. */
  readonly heartbeatSeconds: number | null;
  /** What it is doing or waiting for; null once it is over. */
  readonly wait: string | null;
  /** Why nothing has changed for a while; null if it advances. */
  readonly stall: string | null;
}

/** @param stepSeconds of the newest closed step; null: unknown. */
export async function readLive(store: Store, config: RunConfig, stepSeconds: number | null): Promise<LiveRun> {
  const run = await readRun(store, config.run);
  const { usd } = await readSpending(store, config);
  if (run.status !== "running") {
    return { usd, heartbeatSeconds: null, wait: (await readWait(store, config)) ?? null, stall: null };
  }
  const now = await store.clock.storeTime();
  const state = await readState(store, config, run);
  const listed = await readListed(store, config.run);
  const stall = await readStall(store, config, new StallDetector(config), { state, now, stepSeconds, listed });
  const ages = state.workers.flatMap((worker) => heartbeatAge(worker, now) ?? []);
  return {
    usd,
    heartbeatSeconds: ages.length > 0 ? Math.min(...ages) : null,
    wait: waitingFor(config, state),
    stall: stall ? describeStall(stall) : null,
  };
}

/** The entry of a run in the list of runs; undefined before it is listed. */
export async function readListed({ table }: Pick<Store, "table">, run: string): Promise<ListedRun | undefined> {
  const item = await table.get(tableKeys.listed(run));
  return item && parse(ListedRun, item, `RUNS of ${run}`);
}

/** Seconds since a scheduled tick saw a heartbeat of the worker; null: no tick has seen one, or the worker is dead. */
export function heartbeatAge({ state, seenAt }: WorkerRecord, now: number): number | null {
  return state === "dead" || seenAt === 0 ? null : Math.max(0, (now - seenAt) / 1000);
}
