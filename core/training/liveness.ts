/**
 * @file Who is alive, as tick sees it (design rule 6), and what a death means for the rollouts that were in flight (rule 5).
 *
 *     alive ──drain──> draining            A heartbeat bumps the counter. Dead: the counter stood still for the lease, in the
 *       └──── lease ────┴──> dead (final)   store's own time. Marking is conditional on the counter, so a late heartbeat wins.
 *
 * A crash makes every rollout in flight a suspect (workers run those alone); only a crash while alone counts.
 */
import type { RunConfig } from "../contracts/config.ts";
import type { AgentRecord, GroupRecord, WorkerRecord } from "../contracts/records.ts";
import { type Command, change } from "./commands.ts";
import { countCrash, endRun, forgiveTakeovers, markDead, sawWorker } from "./writes.ts";

/** Takeovers of a trainer without a new version that halt the run. */
const MAX_TAKEOVERS = 3;

/** What a look at the workers calls for. `storeTime` in ms. `groups` are those of RUN's step while it is open. */
export function observeWorkers(
  config: RunConfig,
  workers: readonly WorkerRecord[],
  groups: readonly GroupRecord[],
  storeTime: number,
): Command[] {
  const lease = config.liveness.leaseSeconds * 1000;
  return workers.flatMap((worker): Command[] => {
    if (worker.state === "dead") return [];
    const seenFor = storeTime - worker.seenAt;
    if (worker.counter !== worker.seenCounter) {
      // A counter that moves is noted twice per lease at most: each note is a write.
      return seenFor < lease / 2 ? [] : [change(sawWorker(worker, storeTime))];
    }
    return seenFor > lease ? [change(markDead(worker), countCrashes(worker, groups))] : [];
  });
}

/** A crash while alone counts against the rollout; a drain never does. */
function countCrashes(worker: WorkerRecord, groups: readonly GroupRecord[]): Command[] {
  const [alone, ...others] = worker.inFlight;
  if (worker.state === "draining" || alone === undefined || others.length > 0) return [];
  const [step, group, rollout] = alone.split("/").map(Number);
  const found = groups.find((record) => record.step === step && record.group === group);
  if (!found || rollout === undefined || found.rollouts[rollout]) return [];
  return [change(countCrash(found, rollout, found.crashes[rollout] ?? 0))];
}

/** Halts a run whose trainer of some agent was taken over too often; the count is forgiven, so that `resume` may try again. */
export function haltLostTrainers(run: string, agents: readonly AgentRecord[]): Command[] {
  const lost = agents.filter(({ takeovers }) => takeovers >= MAX_TAKEOVERS);
  if (lost.length === 0) return [];
  const names = lost.map(({ agent }) => agent).join(", ");
  const reason = `the trainer of ${names} was lost ${MAX_TAKEOVERS} times without a new version; read its worker's log, then resume`;
  return [change(endRun(run, "halted", reason)), ...lost.map((agent) => change(forgiveTakeovers(agent)))];
}
