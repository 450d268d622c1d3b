/**
 * @file Which workers are alive, as tick sees it, and what a death means for the rollouts that were in flight.
 *
 *     alive ──drain──> draining             A heartbeat increments the counter. Dead: the counter did not move for one lease, in the
 *       └──── lease ────┴──> dead (final)   store's own time, nor for half a lease after tick noticed that. Marking is conditional on
 *                                           the counter, so a late heartbeat wins.
 *
 * A time in the future was recorded before the store's clock was set back: the present time replaces it.
 *
 * After an outage of the store, every lease has expired, since nobody could write: the half lease leaves time for the next heartbeats.
 *
 * A crash makes every rollout in flight a suspect. Workers run suspects alone, and only a crash while alone counts against a rollout. A dead
 * worker's record names that rollout, so a crash that its observer failed to count is counted later, by another observer or by tick.
 */
import type { RunConfig } from "../contracts/config.ts";
import type { AgentRecord, GroupRecord, WorkerRecord } from "../contracts/records.ts";
import { type StoreCommand, update } from "./store-commands.ts";
import { countCrash, endRun, markDead, recordSeenCounter, resetTakeovers, suspectDeath } from "./writes.ts";

/** Number of trainer takeovers without a new version that halts the run. */
export const MAX_TAKEOVERS = 3;

/** Records heartbeats, marks dead workers and counts their crashes. `storeTime` in ms. `groups`: the open ones of the steps in flight. */
export function observeWorkers(
  config: RunConfig,
  workers: readonly WorkerRecord[],
  groups: readonly GroupRecord[],
  storeTime: number,
): StoreCommand[] {
  const lease = config.liveness.leaseSeconds * 1000;
  return workers.flatMap((worker) => {
    if (worker.state === "dead") return [...dateDeath(worker, storeTime), ...countCrashes(worker, groups)];
    const unchangedFor = storeTime - worker.seenAt;
    if (unchangedFor < 0) return [update(recordSeenCounter(worker, storeTime))];
    if (worker.counter !== worker.seenCounter) {
      // Recording is a write, so a moving counter is recorded at most twice per lease.
      return unchangedFor < lease / 2 ? [] : [update(recordSeenCounter(worker, storeTime))];
    }
    if (unchangedFor <= lease) return [];
    const { seenAt, suspectedAt = seenAt } = worker;
    if (suspectedAt <= seenAt || suspectedAt > storeTime) return [update(suspectDeath(worker, storeTime))];
    return storeTime - suspectedAt > lease / 2 ? [update(markDead(worker), countCrashes(worker, groups))] : [];
  });
}

/** Records a dead worker's last counter, unless tick has: `seenAt` then dates the death. */
function dateDeath(worker: WorkerRecord, storeTime: number): StoreCommand[] {
  return worker.counter === worker.seenCounter ? [] : [update(recordSeenCounter(worker, storeTime))];
}

function countCrashes(worker: WorkerRecord, groups: readonly GroupRecord[]): StoreCommand[] {
  const alone = rolloutAlone(worker);
  const group = alone && groups.find((record) => record.step === alone.step && record.group === alone.group);
  return alone && group && isUncounted(group, worker, alone.rollout)
    ? [update(countCrash(group, alone.rollout, worker.worker))]
    : [];
}

/** How WORKER.inFlight names a training rollout. Evaluations name theirs differently and count crashes in JOB. */
const TRAINING_ROLLOUT = /^\d+\/\d+\/\d+$/;

/** The training rollout that a crash of the worker counts against: the one that it ran alone. A drain never counts. */
export function rolloutAlone({
  state,
  inFlight,
}: WorkerRecord): Record<"step" | "group" | "rollout", number> | undefined {
  const [alone, ...others] = inFlight;
  if (state === "draining" || alone === undefined || others.length > 0) return undefined;
  if (!TRAINING_ROLLOUT.test(alone)) return undefined;
  const [step = 0, group = 0, rollout = 0] = alone.split("/").map(Number);
  return { step, group, rollout };
}

/** Whether a crash of the worker in this rollout has yet to be counted. */
export function isUncounted(group: GroupRecord, { worker }: WorkerRecord, rollout: number): boolean {
  return group.state === "open" && group.rollouts[rollout] === undefined && group.crashes[worker] === undefined;
}

/** Halts a run that lost some agent's trainer too often. The count is reset, so that the resumed run may retry. */
export function haltLostTrainers(run: string, agents: readonly AgentRecord[]): StoreCommand[] {
  const lost = agents.filter(({ takeovers }) => takeovers >= MAX_TAKEOVERS);
  if (lost.length === 0) return [];
  const trainers = lost.map(({ agent }) => `the trainer of ${agent}`).join(", ");
  const reason = `lost ${MAX_TAKEOVERS} times without a new version: ${trainers}; read the workers' logs, then resume`;
  return [update(endRun(run, { code: "trainer-lost", reason })), ...lost.map((agent) => update(resetTakeovers(agent)))];
}
