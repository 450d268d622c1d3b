/**
 * @file Which workers are alive, as tick sees it, and what a death means for the rollouts that were in flight.
 *
 *     alive ──drain──> draining             A heartbeat increments the counter. Dead: the counter did not move for the lease, in the
 *       └──── lease ────┴──> dead (final)   store's own time. Marking is conditional on the counter, so a late heartbeat wins.
 *
 * A crash makes every rollout in flight a suspect. Workers run suspects alone, and only a crash while alone counts against a rollout.
 */
import type { RunConfig } from "../contracts/config.ts";
import type { AgentRecord, GroupRecord, WorkerRecord } from "../contracts/records.ts";
import { change, type StoreCommand } from "./store-commands.ts";
import { countCrash, endRun, markDead, recordSeenCounter, resetTakeovers } from "./writes.ts";

/** Takeovers of a trainer without a new version that halt the run. */
const MAX_TAKEOVERS = 3;

/** Notes heartbeats and marks dead workers. `storeTime` in ms. `groups`: those of RUN's step while it is open. */
export function observeWorkers(
  config: RunConfig,
  workers: readonly WorkerRecord[],
  groups: readonly GroupRecord[],
  storeTime: number,
): StoreCommand[] {
  const lease = config.liveness.leaseSeconds * 1000;
  return workers.flatMap((worker) => {
    if (worker.state === "dead") return [];
    const unchangedFor = storeTime - worker.seenAt;
    if (worker.counter !== worker.seenCounter) {
      // Each note is a write, so a moving counter is noted at most twice per lease.
      return unchangedFor < lease / 2 ? [] : [change(recordSeenCounter(worker, storeTime))];
    }
    return unchangedFor > lease ? [change(markDead(worker), countCrashes(worker, groups))] : [];
  });
}

/** A crash while alone counts against the rollout. A drain never does. */
function countCrashes(worker: WorkerRecord, groups: readonly GroupRecord[]): StoreCommand[] {
  const [alone, ...others] = worker.inFlight;
  if (worker.state === "draining" || alone === undefined || others.length > 0) return [];
  const [step, group, rollout] = alone.split("/").map(Number);
  const found = groups.find((record) => record.step === step && record.group === group);
  if (!found || rollout === undefined || found.rollouts[rollout]) return [];
  return [change(countCrash(found, rollout, found.crashes[rollout] ?? 0))];
}

/** Halts a run that lost some agent's trainer too often. The count is reset, so that `resume` may try again. */
export function haltLostTrainers(run: string, agents: readonly AgentRecord[]): StoreCommand[] {
  const lost = agents.filter(({ takeovers }) => takeovers >= MAX_TAKEOVERS);
  if (lost.length === 0) return [];
  const names = lost.map(({ agent }) => agent).join(", ");
  const reason = `the trainer of ${names} was lost ${MAX_TAKEOVERS} times without a new version; read its worker's log, then resume`;
  return [change(endRun(run, "halted", reason)), ...lost.map((agent) => change(resetTakeovers(agent)))];
}
