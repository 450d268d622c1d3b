/**
 * @file What the missing rollouts of an open step wait for, from its groups and workers. Pure.
 *
 *     running      claimed by a live worker, whose heartbeats count it as running
 *     quarantined  claimed by a live worker, whose heartbeats say that it waits to run alone
 *     unscored     claimed by a live worker, neither of these: a judge or the recipe's rewards are scoring it
 *     orphaned     claimed by a dead worker: it may only run alone, unless it has run and waits for its score
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
  const byWorker = [...claimed].map(([worker, n]) => ({ worker, ...splitClaimed(state, worker, n) }));
  const unscored = sum(byWorker.map((one) => one.unscored));
  const { rolloutSeconds, verdictSeconds } = config.limits;
  const judge = config.judge ? "the judge" : "the recipe's reward function";
  return [
    ...byWorker.flatMap(({ worker, running }) =>
      ifAny(running, (n) => ({
        what: `${worker} runs ${countText(n)}`,
        ends: `${n === 1 ? "it ends" : "they end"}, or limits.rolloutSeconds (${rolloutSeconds} s) ends ${them(n)}`,
        likelihood: "possible",
        isAtWork: true,
      })),
    ),
    ...byWorker.flatMap(({ worker, quarantined }) =>
      ifAny(quarantined, (n) => ({
        what: `${countText(n)} of ${worker} ${n === 1 ? "waits" : "wait"} to run alone, since a worker or an engine thread died during ${n === 1 ? "its" : "their"} attempts`,
        ends: `${worker} has no other rollout in flight and runs ${n === 1 ? "it" : "them, one at a time"}`,
        likelihood: "certain",
      })),
    ),
    ...[...orphaned].map(
      ([worker, n]): Cause => ({
        what: `${countText(n)} ${are(n)} claimed by ${worker}, which is dead: ${n === 1 ? "it" : "they"} may only run alone, or ${n === 1 ? "has" : "have"} run and ${n === 1 ? "waits" : "wait"} for a score`,
        ends: `a worker without other rollouts takes ${n === 1 ? "it over" : "them over, one at a time"}, or ${judge} scores ${them(n)}: a judge that a dead process was asking is asked again once limits.verdictSeconds (${verdictSeconds} s) have passed`,
        likelihood: "certain",
      }),
    ),
    ...ifAny(unscored, (n) => ({
      what: `${countText(n)} ${are(n)} claimed, not running and not scored: ${judge} has not answered`,
      ends: `${judge} scores ${them(n)}, within limits.verdictSeconds (${verdictSeconds} s) per attempt`,
      likelihood: "likely",
    })),
    // If workers run other rollouts, these wait for room: the workers are at work.
    ...ifAny(unclaimed, (n) => ({
      what: `${countText(n)} ${are(n)} not claimed by any worker`,
      ends: `a worker claims ${them(n)} once it has room`,
      likelihood: "possible",
      ...(byWorker.some(({ running }) => running > 0) && { isAtWork: true as const }),
    })),
  ];
}

/**
 * How many of the rollouts that a worker has claimed run, wait to run alone, or wait for a score, as of its last heartbeat. A heartbeat counts
 * all open steps: with `staleness`, rollouts of later steps may count too.
 */
function splitClaimed({ workers }: RunState, name: string, claimed: number) {
  const record = workers.find(({ worker }) => worker === name);
  const running = Math.min(claimed, record?.running ?? 0);
  const quarantined = Math.min(claimed - running, record?.quarantined ?? 0);
  return { running, quarantined, unscored: claimed - running - quarantined };
}

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

const ifAny = (n: number, cause: (n: number) => Cause): Cause[] => (n === 0 ? [] : [cause(n)]);
const them = (n: number): string => (n === 1 ? "it" : "them");
const are = (n: number): string => (n === 1 ? "is" : "are");
const countText = (n: number): string => `${n} rollout${n === 1 ? "" : "s"}`;
