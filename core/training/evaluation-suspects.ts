/**
 * @file Which rollouts of an evaluation may have crashed its worker. A rollout that does so again and again must not keep the evaluation from
 * ending: a suspect runs alone, and one that has crashed `crashLimit` workers alone is given up, and counted as lost.
 *
 *     a worker dies        its WORKER record says what it had in flight     the next lease records the suspects in JOB
 *     a worker fails       it knows                                         it records them in JOB as it returns the job
 *     a worker hangs, or   the same, if it still can; else as for one
 *     is declared dead     that dies
 *
 * The first worker of a job records nothing in flight, so its death makes no suspects.
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
 * The suspects after a crash of a worker that had these rollouts in flight. Suspects run before the others, one at a time: so if another
 * rollout was in flight, the earlier suspects had ended, and only those that are given up are kept. So there are at most as many others as a
 * worker has slots.
 */
export function suspectsAfter(suspects: Suspects = {}, crashed: readonly string[], crashLimit: number): Suspects {
  const [first] = crashed;
  if (first === undefined) return suspects;
  const ranAlone = crashed.length === 1;
  const isSuspect = ranAlone && suspects[first] !== undefined;
  const kept = Object.entries(suspects).filter(([, crashes]) => isSuspect || crashes >= crashLimit);
  const counted = crashed.map((name) => [name, (suspects[name] ?? 0) + (ranAlone ? 1 : 0)]);
  return Object.fromEntries([...kept, ...counted]);
}
