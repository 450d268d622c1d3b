/**
 * @file Who else is alive, as this process sees it: a worker whose counter stood still for the lease, on this process's own
 * monotonic clock, is dead, and whoever notices first marks it so. With that a run goes on even where no tick runs by the clock.
 */
import { tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { parse } from "../../core/contracts/parse.ts";
import { GroupRecord, WorkerRecord } from "../../core/contracts/records.ts";
import { countCrash, markDead } from "../../core/training/writes.ts";
import type { RunContext } from "../run-context.ts";

export interface Observer {
  /** Reads the WORKER records, at most once per heartbeat unless `now`. */
  look(now?: boolean): Promise<void>;
  /** As of the last look. */
  workers(): readonly WorkerRecord[];
  /** True once a worker is marked dead, or a look that began after it was first asked about found no record of it. */
  isDead(worker: string): boolean;
}

export function observeWorkers({ name, config, store, log }: RunContext): Observer {
  const { table, clock } = store;
  const { heartbeatSeconds, leaseSeconds } = config.liveness;
  const seen = new Map<string, { counter: number; since: number }>();
  let records: readonly WorkerRecord[] = [];
  let lookedAt = Number.NEGATIVE_INFINITY;
  /** Looks begun, and the latest of them that has ended. */
  let [begun, ended] = [0, 0];
  /** Workers without a record, with the looks begun when they were first asked about. */
  const unknown = new Map<string, number>();

  async function look(now = false) {
    if (!now && clock.monotonic() - lookedAt < heartbeatSeconds) return;
    lookedAt = clock.monotonic();
    const mine = ++begun;
    const items = await table.query(tableKeys.run(name).pk, tablePrefixes.workers);
    records = await Promise.all(items.map((item) => judge(parse(WorkerRecord, item, `WORKER of ${name}`))));
    ended = Math.max(ended, mine);
  }

  async function judge(worker: WorkerRecord): Promise<WorkerRecord> {
    if (worker.state === "dead") return worker;
    const last = seen.get(worker.worker);
    const at = clock.monotonic();
    if (last?.counter !== worker.counter) {
      seen.set(worker.worker, { counter: worker.counter, since: at });
      return worker;
    }
    if (at - last.since < leaseSeconds) return worker;
    const { applied, item } = await table.update(markDead(worker));
    if (!applied) return item ? parse(WorkerRecord, item, `WORKER of ${name}`) : { ...worker, state: "dead" };
    log.warn("worker is dead", { worker: worker.worker, agent: worker.agent, silentSeconds: leaseSeconds });
    await countAgainst(worker);
    return { ...worker, state: "dead" };
  }

  /** A crash counts against a rollout that was alone in flight; a drain never does. */
  async function countAgainst({ state, inFlight }: WorkerRecord) {
    const [alone, ...others] = inFlight;
    if (state === "draining" || alone === undefined || others.length > 0) return;
    const [step = 0, group = 0, rollout = 0] = alone.split("/").map(Number);
    const item = await table.get(tableKeys.group(name, step, group));
    if (!item) return;
    const record = parse(GroupRecord, item, `GROUP ${step}/${group} of ${name}`);
    await table.update(countCrash(record, rollout, record.crashes[rollout] ?? 0));
  }

  return {
    look,
    workers: () => records,
    isDead(id) {
      const known = records.find(({ worker }) => worker === id);
      if (known) return known.state === "dead";
      // It may have registered since the last look: only one that began after this question tells.
      const since = unknown.get(id);
      if (since !== undefined) return ended > since;
      unknown.set(id, begun);
      lookedAt = Number.NEGATIVE_INFINITY;
      return false;
    },
  };
}
