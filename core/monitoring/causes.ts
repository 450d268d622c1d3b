/**
 * @file Why a run does not advance, from its records and its disk: which process it waits for, what ends the wait, and how likely each cause
 * is. Pure. A process at work is a cause too, marked `isAtWork`; stall.ts judges whether nothing has changed for too long.
 *
 *     any step      a spent tool budget · a disk that is nearly full · no worker · a silent worker
 *     open step     rollouts (rollout-causes.ts)
 *     ready step    no trainer · a lost trainer · a trainer lost repeatedly · a trainer at work
 */
import type { RunConfig } from "../contracts/config.ts";
import type { AgentRecord, StepRecord, WorkerRecord, WorkerRole } from "../contracts/records.ts";
import { MAX_TAKEOVERS } from "../training/liveness.ts";
import { versionAfter } from "../training/step-plan.ts";
import { overToolBudgetReason } from "../training/tool-spending.ts";
import { rolloutCauses } from "./rollout-causes.ts";
import type { Cause, RunState } from "./run-state.ts";

/** A disk is nearly full if its free space exceeds neither this share of its size nor this many bytes. */
const NEARLY_FULL = { share: 0.05, bytes: 2 ** 31 };
/** From this many takeovers of one agent's training, its workers are assumed to be failing at it: one more halts the run. */
const THRASHING_TAKEOVERS = MAX_TAKEOVERS - 1;

/** The causes that hold, those of any step first. `storeTime` in ms. */
export function causesOf(config: RunConfig, state: RunState, storeTime: number): Cause[] {
  const { step } = state;
  if (!step) {
    const what = "the first step is not planned";
    return [{ what, ends: "the next scheduled tick plans it, within a minute", likelihood: "certain" }];
  }
  return [
    ...spentTools(state),
    ...fullDisk(state),
    ...missingWorkers(config, state, step),
    ...silentWorkers(config, state, storeTime),
    ...(step.state === "open" ? rolloutCauses(config, state) : trainers(state, step)),
  ];
}

function spentTools({ tools }: RunState): Cause[] {
  const spent = tools && overToolBudgetReason(tools);
  if (spent === undefined) return [];
  return [
    {
      what: spent,
      ends: "the next tool request halts the run: then resume it with a larger budget",
      likelihood: "certain",
    },
  ];
}

function fullDisk({ disk }: RunState): Cause[] {
  if (!disk) return [];
  const { path, freeBytes, totalBytes } = disk;
  if (freeBytes > NEARLY_FULL.bytes || freeBytes > NEARLY_FULL.share * totalBytes) return [];
  const free = `${Math.round(freeBytes / 2 ** 20).toLocaleString("en")} MiB`;
  const ends = "files are deleted there: other runs, or versions that retention keeps";
  return [{ what: `the disk of ${path} has ${free} left`, ends, likelihood: "likely" }];
}

/** Each agent that the step needs now, with the role. */
export function neededRoles(
  config: RunConfig,
  { agents }: RunState,
  step: StepRecord,
): [agent: string, role: WorkerRole][] {
  if (step.state === "open") return Object.keys(config.agents).map((name) => [name, "rollout"]);
  return agentsBehind(step, agents).map((name) => [name, "train"]);
}

/** Trained agents without the version that the step makes. */
export const agentsBehind = (step: StepRecord, agents: readonly AgentRecord[]): string[] =>
  step.trained.filter((name) => (agents.find(({ agent }) => agent === name)?.version ?? 0) < versionAfter(step));

/** Whether a worker has a role for an agent. One that drains begins nothing new, but finishes the ready step that it trains. */
export function hasWorker({ workers, agents }: RunState, agent: string, role: WorkerRole): boolean {
  const trainer = agents.find((one) => one.agent === agent)?.trainer;
  const canWork = ({ worker, state }: WorkerRecord) =>
    state === "alive" || (state === "draining" && role === "train" && worker === trainer);
  return workers.some((one) => one.agent === agent && one.roles.includes(role) && canWork(one));
}

function missingWorkers(config: RunConfig, state: RunState, step: StepRecord): Cause[] {
  const { workers } = state;
  return neededRoles(config, state, step)
    .filter(([agent, role]) => !hasWorker(state, agent, role))
    .map(([agent, role]) => {
      const last = workers.findLast((worker) => worker.agent === agent && worker.state !== "alive");
      const ended = last ? `; ${last.worker} is ${last.state}` : "";
      return {
        what: `no worker of '${agent}' can ${verb(role)}${ended}`,
        ends: `a worker of '${agent}' starts`,
        likelihood: "certain",
      };
    });
}

const verb = (role: WorkerRole): string => (role === "train" ? "train" : "run rollouts");

function silentWorkers({ liveness }: RunConfig, { workers }: RunState, storeTime: number): Cause[] {
  const lease = liveness.leaseSeconds;
  return workers.flatMap(({ worker, state, counter, seenCounter, seenAt }) => {
    const silent = (storeTime - seenAt) / 1000;
    if (state === "dead" || counter !== seenCounter || silent <= lease / 2) return [];
    const ends =
      silent > lease
        ? `another worker marks it dead, or tick does ${lease / 2} s after noticing, and its work is leased again`
        : `its lease expires, ${lease} s after its last heartbeat`;
    const what = `${worker} has sent no heartbeat for ${Math.round(silent)} s`;
    return [{ what, ends, likelihood: silent > lease ? "certain" : "likely" }];
  });
}

function trainers({ agents, workers }: RunState, step: StepRecord): Cause[] {
  return agentsBehind(step, agents).map((name): Cause => {
    const { trainer = "", takeovers = 0 } = agents.find(({ agent }) => agent === name) ?? {};
    const lost = takeovers > 0 ? `, after ${takeovers} of at most ${MAX_TAKEOVERS} takeovers` : "";
    const last = takeovers >= THRASHING_TAKEOVERS ? "; one more takeover halts the run, so read the workers' logs" : "";
    if (trainer === "") {
      const what = `no worker trains '${name}'${lost || " yet"}`;
      return { what, ends: `a worker of '${name}' starts to train it${last}`, likelihood: "certain" };
    }
    const isAlive = workers.some(({ worker, state }) => worker === trainer && state !== "dead");
    if (!isAlive) {
      const what = `the trainer of '${name}', ${trainer}, is gone${lost}`;
      return { what, ends: `another worker takes over the step${last}`, likelihood: "certain" };
    }
    if (takeovers >= THRASHING_TAKEOVERS) {
      const what = `the training of '${name}' moves from worker to worker without a new version; ${trainer} holds it now${lost}`;
      return { what, ends: `it publishes the version${last}`, likelihood: "likely" };
    }
    const ends = "it publishes the version, or limits.trainingSeconds ends the call";
    return { what: `${trainer} trains '${name}'${lost}`, ends, likelihood: "possible", isAtWork: true };
  });
}
