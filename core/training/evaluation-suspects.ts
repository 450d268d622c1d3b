/**
 * @file Which rollouts of an evaluation may have crashed its worker. A rollout that does so again and again must not keep the evaluation from
 * ending: a suspect runs alone. Once it has crashed its worker `crashLimit` times while it ran alone, it is abandoned and counted as lost.
 *
 *     the worker         list of its rollouts in flight    who records the suspects in JOB
 *     dies               its WORKER record                 the next worker, as it leases the job
 *     fails by itself    its memory                        the worker itself, as it releases the job
 *     hangs, or is       its memory                        the worker itself if it still can; otherwise as if it had died
 *     declared dead
 *
 * The first worker of a job does not write this list into its WORKER record, so its death makes no suspects.
 */
import type { JobRecord } from "../contracts/records.ts";

type Suspects = NonNullable<JobRecord["suspects"]>;

/** A rollout's name in JOB.suspects. */
export const nameInJob = ({ group, rollout }: { readonly group: number; readonly rollout: number }): string =>
  `${group}/${rollout}`;

const prefixOf = (job: string): string => `eval:${job}/`;

/** How WORKER.inFlight names rollouts of a job. */
export const inFlightNames = (job: string, names: readonly string[]): string[] =>
  names.map((name) => prefixOf(job) + name);

/** The rollouts of a job that WORKER.inFlight names. */
export function namesOfJob(job: string, inFlight: readonly string[]): string[] {
  const prefix = prefixOf(job);
  return inFlight.filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length));
}

/**
 * The suspects after a crash of a worker. `inFlight`: the rollouts that it had in flight, any of which may have crashed it. Suspects run first,
 * one at a time. If anything other than one suspect was in flight, all earlier suspects had ended: of them, only those that have been
 * abandoned are kept. So, besides those, there are never more suspects than a worker has slots.
 */
export function suspectsAfter(suspects: Suspects = {}, inFlight: readonly string[], crashLimit: number): Suspects {
  const [first] = inFlight;
  if (first === undefined) return suspects;
  const ranAlone = inFlight.length === 1;
  const isSuspect = ranAlone && suspects[first] !== undefined;
  const kept = Object.entries(suspects).filter(([, crashes]) => isSuspect || crashes >= crashLimit);
  const counted = inFlight.map((name) => [name, (suspects[name] ?? 0) + (ranAlone ? 1 : 0)]);
  return Object.fromEntries([...kept, ...counted]);
}
