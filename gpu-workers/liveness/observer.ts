/**
 * @file Which workers are alive, as this process sees it. A worker is dead when its counter has not moved for the lease time on this
 * process's own monotonic clock; the first observer that notices marks it so. Because workers observe each other, a run advances even where
 * no tick runs by the clock.
 */
import { tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { parse } from "../../core/contracts/parse.ts";
import { GroupRecord, WorkerRecord } from "../../core/contracts/records.ts";
import { countCrash, markDead } from "../../core/training/writes.ts";
import type { Run } from "../run.ts";

export interface WorkerObserver {
  /** Reads the WORKER records, at most once per heartbeat interval unless `force`. */
  refresh(force?: boolean): Promise<void>;
  /** As of the last read. */
  workers(): readonly WorkerRecord[];
  /** True once a worker is marked dead, or a read that began after the first question about it found no record. */
  isDead(worker: string): boolean;
}

export function openWorkerObserver(run: Run): WorkerObserver {
  return new LeaseObserver(run);
}

class LeaseObserver implements WorkerObserver {
  readonly #run: Run;
  #records: readonly WorkerRecord[] = [];
  /** Worker -> its counter, and the monotonic time at which it was first seen at that value. */
  readonly #counters = new Map<string, { counter: number; since: number }>();
  #lastRead = Number.NEGATIVE_INFINITY;
  /** Reads begun, and the latest of them that has ended. */
  #reads = { begun: 0, ended: 0 };
  /** Worker without a record -> reads begun when it was first asked about. */
  readonly #unknown = new Map<string, number>();

  constructor(run: Run) {
    this.#run = run;
  }

  async refresh(force = false): Promise<void> {
    const { name, config, store } = this.#run;
    const now = store.clock.monotonic();
    if (!force && now - this.#lastRead < config.liveness.heartbeatSeconds) return;
    this.#lastRead = now;
    const read = ++this.#reads.begun;
    const items = await store.table.query(tableKeys.run(name).pk, tablePrefixes.workers);
    this.#records = await Promise.all(items.map((item) => this.#judge(this.#parse(item))));
    this.#reads.ended = Math.max(this.#reads.ended, read);
  }

  workers(): readonly WorkerRecord[] {
    return this.#records;
  }

  isDead(id: string): boolean {
    const known = this.#records.find(({ worker }) => worker === id);
    if (known) return known.state === "dead";
    // It may have registered since the last read, so only a read that begins after this question can tell.
    const asked = this.#unknown.get(id);
    if (asked !== undefined) return this.#reads.ended > asked;
    this.#unknown.set(id, this.#reads.begun);
    this.#lastRead = Number.NEGATIVE_INFINITY;
    return false;
  }

  /** The record, marked dead if its lease has expired. */
  async #judge(worker: WorkerRecord): Promise<WorkerRecord> {
    if (worker.state === "dead" || !this.#isExpired(worker)) return worker;
    const { store, log, config } = this.#run;
    const { applied, item } = await store.table.update(markDead(worker));
    if (!applied) return item ? this.#parse(item) : { ...worker, state: "dead" };
    const { leaseSeconds } = config.liveness;
    log.warn("worker is dead", { worker: worker.worker, agent: worker.agent, silentSeconds: leaseSeconds });
    await this.#countCrash(worker);
    return { ...worker, state: "dead" };
  }

  #isExpired({ worker, counter }: WorkerRecord): boolean {
    const now = this.#run.store.clock.monotonic();
    const last = this.#counters.get(worker);
    if (last?.counter === counter) return now - last.since >= this.#run.config.liveness.leaseSeconds;
    this.#counters.set(worker, { counter, since: now });
    return false;
  }

  /** Counts a crash against the rollout that was alone in flight, if any. A drain never counts. */
  async #countCrash({ state, inFlight }: WorkerRecord): Promise<void> {
    const [alone, ...others] = inFlight;
    if (state === "draining" || alone === undefined || others.length > 0) return;
    const { name, store } = this.#run;
    const [step = 0, group = 0, rollout = 0] = alone.split("/").map(Number);
    const item = await store.table.get(tableKeys.group(name, step, group));
    if (!item) return;
    const record = parse(GroupRecord, item, `GROUP ${step}/${group} of ${name}`);
    await store.table.update(countCrash(record, rollout, record.crashes[rollout] ?? 0));
  }

  #parse(item: unknown): WorkerRecord {
    return parse(WorkerRecord, item, `WORKER of ${this.#run.name}`);
  }
}
