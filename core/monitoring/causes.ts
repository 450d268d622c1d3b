/**
 * @file Why a run does not advance, from its records alone: which process it waits for, since when, and what ends the wait. Pure. A run
 * that does its work has no cause; whether nothing has changed for long is judged by stall.ts.
 *
 *     open step     no worker · a silent worker · a rollout in progress · a rollout that waits for its score · one that nobody runs
 *     ready step    no trainer · a silent trainer · a trainer that was replaced · a trainer at work
 */
import type { RunConfig } from "../contracts/config.ts";
import type { AgentRecord, GroupRecord, StepRecord, WorkerRecord, WorkerRole } from "../contracts/records.ts";
import { versionAfter } from "../training/step-plan.ts";

export interface Cause {
  /** What is waited for, naming the process. */
  readonly what: string;
  /** What ends the wait. */
  readonly ends: string;
  /** A process is at work, so only the time that it takes may be wrong. */
  readonly isWork?: true;
}

export interface RunState {
  readonly step: StepRecord | undefined;
  readonly groups: readonly GroupRecord[];
  readonly agents: readonly AgentRecord[];
  readonly workers: readonly WorkerRecord[];
}

/** Takeovers of a trainer without a new version that halt a run (core/training/liveness.ts). */
const MAX_TAKEOVERS = 3;

/** The causes, the most certain first. `storeTime` in ms. */
export function causesOf(config: RunConfig, state: RunState, storeTime: number): Cause[] {
  const { step } = state;
  if (!step) return [{ what: "the first step is not planned", ends: "the clock plans it within a minute" }];
  return [
    ...missingWorkers(config, state, step),
    ...silentWorkers(config, state, storeTime),
    ...(step.state === "open" ? openRollouts(config, state) : trainers(state, step)),
  ];
}

/** The roles that the step needs now. */
export function neededRoles(
  config: RunConfig,
  { agents }: RunState,
  step: StepRecord,
): [agent: string, role: WorkerRole][] {
  if (step.state === "open") return Object.keys(config.agents).map((name) => [name, "rollout"]);
  return behind(step, agents).map((name) => [name, "train"]);
}

/** Trained agents without the version that the step makes. */
export const behind = (step: StepRecord, agents: readonly AgentRecord[]): string[] =>
  step.trained.filter((name) => (agents.find(({ agent }) => agent === name)?.version ?? 0) < versionAfter(step));

export const serves = (worker: WorkerRecord, agent: string, role: WorkerRole): boolean =>
  worker.state === "alive" && worker.agent === agent && worker.roles.includes(role);

function missingWorkers(config: RunConfig, state: RunState, step: StepRecord): Cause[] {
  const { workers } = state;
  return neededRoles(config, state, step)
    .filter(([agent, role]) => !workers.some((worker) => serves(worker, agent, role)))
    .map(([agent, role]) => {
      const last = workers.findLast((worker) => worker.agent === agent && worker.state !== "alive");
      const ended = last ? `; ${last.worker} is ${last.state}` : "";
      return { what: `no worker of '${agent}' can ${verb(role)}${ended}`, ends: "a worker of it starts" };
    });
}

const verb = (role: WorkerRole): string =>
  role === "rollout" ? "run rollouts" : role === "train" ? "train" : "evaluate";

function silentWorkers({ liveness }: RunConfig, { workers }: RunState, storeTime: number): Cause[] {
  const lease = liveness.leaseSeconds;
  return workers.flatMap(({ worker, state, counter, seenCounter, seenAt }) => {
    const silent = (storeTime - seenAt) / 1000;
    if (state !== "alive" || counter !== seenCounter || silent <= lease / 2) return [];
    const ends =
      silent > lease ? "the clock marks it dead and its work is leased again" : `its lease ends after ${lease} s`;
    return [{ what: `${worker} has sent no heartbeat for ${Math.round(silent)} s`, ends }];
  });
}

function openRollouts(config: RunConfig, { groups, workers }: RunState): Cause[] {
  const inFlight = new Map(
    workers
      .filter(({ state }) => state === "alive")
      .flatMap(({ worker, inFlight: own }) => own.map((at) => [at, worker])),
  );
  const running = new Map<string, number>();
  let unscored = 0;
  let unclaimed = 0;
  for (const group of groups) {
    for (let k = 0; k < group.rolloutsPerQuestion; k++) {
      if (group.rollouts[k] !== undefined) continue;
      const worker = inFlight.get(`${group.step}/${group.group}/${k}`);
      if (worker !== undefined) running.set(worker, (running.get(worker) ?? 0) + 1);
      else if (group.claims?.[k] !== undefined) unscored++;
      else unclaimed++;
    }
  }
  const { rolloutSeconds, verdictSeconds } = config.limits;
  return [
    ...[...running].map(([worker, n]) => ({
      what: `${worker} runs ${count(n, "rollout")}`,
      ends: `they end, or limits.rolloutSeconds (${rolloutSeconds} s) ends them`,
      isWork: true as const,
    })),
    ...cause(
      unscored,
      "claimed, not running and not scored",
      `rewards or a judge score them, within ${verdictSeconds} s a try`,
    ),
    ...cause(unclaimed, "run by nobody", "a worker claims them once it has room"),
  ];
}

const cause = (n: number, what: string, ends: string): Cause[] =>
  n === 0 ? [] : [{ what: `${count(n, "rollout")} ${n === 1 ? "is" : "are"} ${what}`, ends }];

const count = (n: number, thing: string): string => `${n} ${thing}${n === 1 ? "" : "s"}`;

function trainers({ agents, workers }: RunState, step: StepRecord): Cause[] {
  return behind(step, agents).flatMap((name): Cause[] => {
    const record = agents.find(({ agent }) => agent === name);
    if (!record || record.trainer === "")
      return [{ what: `nobody trains '${name}' yet`, ends: "a worker of it claims the step" }];
    const { trainer, takeovers } = record;
    const isAlive = workers.some(({ worker, state }) => worker === trainer && state === "alive");
    const lost = takeovers > 0 ? `, after ${takeovers} of at most ${MAX_TAKEOVERS} takeovers` : "";
    if (isAlive)
      return [
        {
          what: `${trainer} trains '${name}'${lost}`,
          ends: "it publishes the version, or limits.trainingSeconds ends the call",
          isWork: true,
        },
      ];
    return [
      { what: `the trainer of '${name}', ${trainer}, is gone${lost}`, ends: "another worker takes the step over" },
    ];
  });
}
