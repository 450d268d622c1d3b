/**
 * @file What the missing rollouts of an open step wait for, from its groups and workers. Pure.
 *
 *     running      claimed by a live worker, whose heartbeats count it as running
 *     unscored     claimed by a live worker, no longer running: a judge or the recipe's rewards are scoring it
 *     orphaned     claimed by a dead worker, so it may only run alone
 *     unclaimed    no worker has claimed it
 */
import type { RunConfig } from "../contracts/config.ts";
import { sum } from "../statistics.ts";
import type { Cause, RunState } from "./run-state.ts";

/** Rollouts without a score: by the live worker that has claimed them, by the dead worker that had, and the number without a claim. */
interface Missing {
  readonly claimed: ReadonlyMap<string, number>;
  readonly orphaned: ReadonlyMap<string, number>;
  readonly unclaimed: number;
}

export function rolloutCauses(config: RunConfig, state: RunState): Cause[] {
  const { claimed, orphaned, unclaimed } = missing(state);
  const running = [...claimed].map(([worker, n]) => [worker, Math.min(n, runningOn(state, worker))] as const);
  const unscored = sum([...claimed.values()]) - sum(running.map(([, n]) => n));
  const { rolloutSeconds, verdictSeconds } = config.limits;
  const judge = config.judge ? "the judge" : "the recipe's reward function";
  return [
    ...running.flatMap(([worker, n]) =>
      counted(n, () => ({
        what: `${worker} runs ${count(n)}`,
        ends: `${n === 1 ? "it ends" : "they end"}, or limits.rolloutSeconds (${rolloutSeconds} s) ends ${them(n)}`,
        likelihood: "possible",
        isWork: true,
      })),
    ),
    ...[...orphaned].map(
      ([worker, n]): Cause => ({
        what: `${count(n)} ${are(n)} claimed by ${worker}, which is dead: ${n === 1 ? "it" : "they"} may only run alone`,
        ends: `a worker without other rollouts takes ${n === 1 ? "it over" : "them over, one at a time"}`,
        likelihood: "certain",
      }),
    ),
    ...counted(unscored, (n) => ({
      what: `${count(n)} ${are(n)} claimed, not running and not scored: ${judge} has not answered`,
      ends: `${judge} scores ${them(n)}, within limits.verdictSeconds (${verdictSeconds} s) per attempt`,
      likelihood: "likely",
    })),
    ...counted(unclaimed, (n) => ({
      what: `${count(n)} ${are(n)} not claimed by any worker`,
      ends: `a worker claims ${them(n)} once it has room`,
      likelihood: "possible",
    })),
  ];
}

/** As of its last heartbeat, over all open steps: with `staleness`, rollouts of later steps may count too. */
const runningOn = ({ workers }: RunState, name: string): number =>
  workers.find(({ worker }) => worker === name)?.running ?? 0;

function missing({ groups, workers }: RunState): Missing {
  const dead = new Set(workers.filter(({ state }) => state === "dead").map(({ worker }) => worker));
  const owners = groups.flatMap(({ rolloutsPerQuestion, rollouts, claims = {} }) =>
    Array.from({ length: rolloutsPerQuestion }, (_, k) => k)
      .filter((k) => rollouts[k] === undefined)
      .map((k) => claims[k]),
  );
  const claimants = owners.filter((owner) => owner !== undefined);
  return {
    claimed: tally(claimants.filter((owner) => !dead.has(owner))),
    orphaned: tally(claimants.filter((owner) => dead.has(owner))),
    unclaimed: owners.length - claimants.length,
  };
}

function tally(names: readonly string[]): Map<string, number> {
  const totals = new Map<string, number>();
  for (const name of names) totals.set(name, (totals.get(name) ?? 0) + 1);
  return totals;
}

const counted = (n: number, cause: (n: number) => Cause): Cause[] => (n === 0 ? [] : [cause(n)]);
const them = (n: number): string => (n === 1 ? "it" : "them");
const are = (n: number): string => (n === 1 ? "is" : "are");
const count = (n: number): string => `${n} rollout${n === 1 ? "" : "s"}`;
