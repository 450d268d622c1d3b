/**
 * @file Which workers are alive, as this process sees it. A worker is dead when its counter has not moved for the lease time on this
 * process's own monotonic clock; the first observer that notices marks it dead. Because workers observe each other, a run advances even
 * where no schedule calls tick. While this process could not read, or slept, the others may have been unable to write, too: of the time
 * between two reads, no more than half a lease counts.
 */
import { tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { parse } from "../../core/contracts/parse.ts";
import { GroupRecord, WorkerRecord } from "../../core/contracts/records.ts";
import { isUncounted, rolloutAlone } from "../../core/training/liveness.ts";
import { countCrash, markDead } from "../../core/training/writes.ts";
import type { RunContext } from "../run-context.ts";

export interface WorkerObserver {
  /**
   * Reads the WORKER records, at most once per heartbeat interval. Reads regardless with `force`, and after the first call of `isDead` for
   * a worker without a record.
   */
  refresh(force?: boolean): Promise<void>;
  /** As of the last read. */
  workers(): readonly WorkerRecord[];
  /** True once a worker is marked dead, or a read that began after the first call for it found no record. */
  isDead(worker: string): boolean;
}

/** Live workers that answer invocations of an agent. */
export function workersServing(observer: WorkerObserver, agent: string): WorkerRecord[] {
  return observer
    .workers()
    .filter(
      (worker) =>
        worker.state === "alive" && worker.agent === agent && worker.url !== "" && worker.roles.includes("rollout"),
    );
}

/** What this process has observed so far. */
interface Observation {
  records: readonly WorkerRecord[];
  /** Worker -> its counter, and the monotonic time since which it counts as silent. */
  readonly counters: Map<string, { readonly counter: number; readonly since: number }>;
  /** Monotonic time at which the last read began; -Infinity: the next `refresh` reads. */
  lastReadAt: number;
  /** Monotonic time of the last read's answer. */
  lastAnswerAt: number;
  readsBegun: number;
  /** Number of the newest completed read. */
  newestRead: number;
  /** Dead workers whose crash has been counted or needs no counting. */
  readonly settled: Set<string>;
  /** Worker without a record -> number of reads begun by the first call of `isDead` for it. */
  readonly unknown: Map<string, number>;
}

export function openWorkerObserver(run: RunContext): WorkerObserver {
  const observation: Observation = {
    records: [],
    counters: new Map(),
    lastReadAt: Number.NEGATIVE_INFINITY,
    lastAnswerAt: Number.NEGATIVE_INFINITY,
    readsBegun: 0,
    newestRead: 0,
    settled: new Set(),
    unknown: new Map(),
  };
  return {
    refresh: (force = false) => refresh(run, observation, force),
    workers: () => observation.records,
    isDead: (worker) => isDead(observation, worker),
  };
}

async function refresh(run: RunContext, observation: Observation, force: boolean): Promise<void> {
  const { name, config, store } = run;
  const now = store.clock.monotonic();
  if (!force && now - observation.lastReadAt < config.liveness.heartbeatSeconds) return;
  observation.lastReadAt = now;
  const read = ++observation.readsBegun;
  const items = await store.table.query(tableKeys.run(name).pk, tablePrefixes.workers);
  if (read < observation.newestRead) return;
  excuseGap(run, observation);
  const records = await Promise.all(
    items.map((item) => markIfExpired(run, observation, parse(WorkerRecord, item, `WORKER of ${name}`))),
  );
  await Promise.all(records.map((worker) => settleCrash(run, observation, worker)));
  // A late answer must not replace a newer one.
  if (read < observation.newestRead) return;
  observation.records = records;
  observation.newestRead = read;
  forgetPast(observation);
}

/** Drops the counters and settled crashes of workers without a record, such as those that are long dead (core/training/past-workers.ts). */
function forgetPast({ records, counters, settled }: Observation): void {
  const known = new Set(records.map(({ worker }) => worker));
  for (const kept of [counters, settled]) {
    for (const worker of kept.keys()) if (!known.has(worker)) kept.delete(worker);
  }
}

/** Of the time since the previous answer, at most half a lease counts as a worker's silence. */
function excuseGap({ store, config }: RunContext, observation: Observation): void {
  const { counters, lastAnswerAt } = observation;
  const now = store.clock.monotonic();
  observation.lastAnswerAt = now;
  const excess = now - lastAnswerAt - config.liveness.leaseSeconds / 2;
  if (excess <= 0) return;
  for (const [worker, { counter, since }] of counters) counters.set(worker, { counter, since: since + excess });
}

function isDead(observation: Observation, id: string): boolean {
  const known = observation.records.find(({ worker }) => worker === id);
  if (known) return known.state === "dead";
  // It may have registered since the last read, so only a read that begins after this call can tell.
  const readsBefore = observation.unknown.get(id);
  if (readsBefore !== undefined) return observation.newestRead > readsBefore;
  observation.unknown.set(id, observation.readsBegun);
  observation.lastReadAt = Number.NEGATIVE_INFINITY;
  return false;
}

/** The record, marked dead if its lease has expired. */
async function markIfExpired(run: RunContext, observation: Observation, worker: WorkerRecord): Promise<WorkerRecord> {
  if (worker.state === "dead" || !isExpired(run, observation, worker)) return worker;
  const { applied, item } = await run.store.table.update(markDead(worker));
  const { leaseSeconds } = run.config.liveness;
  if (applied)
    run.log.warn("worker is dead", { worker: worker.worker, agent: worker.agent, silentSeconds: leaseSeconds });
  return item ? parse(WorkerRecord, item, `WORKER of ${run.name}`) : { ...worker, state: "dead" };
}

function isExpired(
  { store, config }: RunContext,
  { counters }: Observation,
  { worker, counter }: WorkerRecord,
): boolean {
  const now = store.clock.monotonic();
  const last = counters.get(worker);
  if (last?.counter === counter) return now - last.since >= config.liveness.leaseSeconds;
  counters.set(worker, { counter, since: now });
  return false;
}

/**
 * Counts the crash of a dead worker against the rollout that it ran alone, no matter who marked it dead: that observer may have died,
 * or missed the store's response.
 */
async function settleCrash(run: RunContext, { settled }: Observation, worker: WorkerRecord): Promise<void> {
  if (worker.state !== "dead" || settled.has(worker.worker)) return;
  await countAgainstRollout(run, worker);
  settled.add(worker.worker);
}

async function countAgainstRollout({ name, store }: RunContext, worker: WorkerRecord): Promise<void> {
  const alone = rolloutAlone(worker);
  if (!alone) return;
  const { step, group, rollout } = alone;
  const item = await store.table.get(tableKeys.group(name, step, group));
  if (!item) return;
  const record = parse(GroupRecord, item, `GROUP ${step}/${group} of ${name}`);
  if (isUncounted(record, worker, rollout)) await store.table.update(countCrash(record, rollout, worker.worker));
}
