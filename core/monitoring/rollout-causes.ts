/**
 * @file What the missing rollouts of an open step wait for, from its groups and workers. Pure.
 *
 *     claimed      running · its worker is dead, so it may only run alone · neither running nor scored: a judge or the rewards have it
 *     unclaimed    run by nobody
 */
import type { RunConfig } from "../contracts/config.ts";
import type { Cause, RunState } from "./run-state.ts";

type Wait = { readonly kind: "running" | "orphaned"; readonly worker: string } | { readonly kind: UnnamedWait };
type UnnamedWait = "unscored" | "unclaimed";

export function rolloutCauses(config: RunConfig, state: RunState): Cause[] {
  const waits = missing(state);
  const of = (kind: UnnamedWait) => waits.filter((wait) => wait.kind === kind).length;
  const { rolloutSeconds, verdictSeconds } = config.limits;
  const judge = config.judge ? "the judge" : "the recipe's reward function";
  return [
    ...perWorker(waits, "running").map(
      ([worker, n]): Cause => ({
        what: `${worker} runs ${count(n)}`,
        ends: `they end, or limits.rolloutSeconds (${rolloutSeconds} s) ends them`,
        likelihood: "possible",
        isWork: true,
      }),
    ),
    ...perWorker(waits, "orphaned").map(
      ([worker, n]): Cause => ({
        what: `${count(n)} ${are(n)} claimed by ${worker}, which is dead: nobody may run ${n === 1 ? "it" : "them"} beside others`,
        ends: "a worker without other rollouts takes them over, one at a time",
        likelihood: "certain",
      }),
    ),
    ...counted(of("unscored"), (n) => ({
      what: `${count(n)} ${are(n)} claimed, not running and not scored: ${judge} has not answered`,
      ends: `${judge} scores ${n === 1 ? "it" : "them"}, within limits.verdictSeconds (${verdictSeconds} s) a try`,
      likelihood: "likely",
    })),
    ...counted(of("unclaimed"), (n) => ({
      what: `${count(n)} ${are(n)} run by nobody`,
      ends: "a worker claims them once it has room",
      likelihood: "possible",
    })),
  ];
}

function missing({ groups, workers }: RunState): Wait[] {
  const dead = new Set(workers.filter(({ state }) => state === "dead").map(({ worker }) => worker));
  const busy = workers.filter(({ worker }) => !dead.has(worker));
  const inFlight = new Map(busy.flatMap(({ worker, inFlight: own }) => own.map((at) => [at, worker])));
  return groups.flatMap(({ step, group, rolloutsPerQuestion, rollouts, claims = {} }) => {
    const open = Array.from({ length: rolloutsPerQuestion }, (_, k) => k).filter((k) => rollouts[k] === undefined);
    return open.map((k): Wait => {
      const runner = inFlight.get(`${step}/${group}/${k}`);
      if (runner !== undefined) return { kind: "running", worker: runner };
      const owner = claims[k];
      if (owner === undefined) return { kind: "unclaimed" };
      return dead.has(owner) ? { kind: "orphaned", worker: owner } : { kind: "unscored" };
    });
  });
}

function perWorker(waits: readonly Wait[], kind: "running" | "orphaned"): [worker: string, n: number][] {
  const totals = new Map<string, number>();
  for (const wait of waits) if (wait.kind === kind) totals.set(wait.worker, (totals.get(wait.worker) ?? 0) + 1);
  return [...totals];
}

const counted = (n: number, cause: (n: number) => Cause): Cause[] => (n === 0 ? [] : [cause(n)]);
const are = (n: number): string => (n === 1 ? "is" : "are");
const count = (n: number): string => `${n} rollout${n === 1 ? "" : "s"}`;
