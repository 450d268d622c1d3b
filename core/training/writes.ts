/**
 * @file The conditional writes of records, as data: what each changes, and under which conditions. Each is safe to repeat: either its
 * condition fails the second time, or it sets what is already there, or it is one more heartbeat. Evaluation jobs: job-writes.ts; fleets:
 * fleet-writes.ts; trainers' calls: call-writes.ts.
 */
import { boundReason } from "../contracts/bounds.ts";
import type { Halt } from "../contracts/halt.ts";
import { tableKeys } from "../contracts/keys.ts";
import type {
  AgentBatch,
  AgentRecord,
  GroupRecord,
  RolloutScore,
  RunRecord,
  StepRecord,
  WorkerRecord,
} from "../contracts/records.ts";
import type { TableChange, TableCondition, TableValue } from "../ports.ts";

/** The attribute has this value. */
export const equals = (attribute: string, value: TableValue): TableCondition => ({ equals: [[attribute], value] });

type GroupAddress = Pick<GroupRecord, "run" | "step" | "group">;
const groupKey = ({ run, step, group }: GroupAddress) => tableKeys.group(run, step, group);

/**
 * Rollouts that one write may claim or score: DynamoDB accepts expressions of at most 4,096 bytes and 300 operators. The condition of a claim
 * of 50 takes about 3,300 bytes and 201 operators.
 */
const ROLLOUTS_PER_WRITE = 50;

/** Splits the rollouts of a group into parts that one write each can hold. */
export function splitIntoWrites<T>(rollouts: readonly T[]): T[][] {
  const parts = Math.ceil(rollouts.length / ROLLOUTS_PER_WRITE);
  return Array.from({ length: parts }, (_, i) => rollouts.slice(i * ROLLOUTS_PER_WRITE, (i + 1) * ROLLOUTS_PER_WRITE));
}

/** Claims rollouts of a group that has no claims yet, in one small write. */
export function claimUnclaimedGroup(address: GroupAddress, rollouts: readonly number[], worker: string): TableChange {
  return {
    key: groupKey(address),
    set: [[["claims"], Object.fromEntries(rollouts.map((k) => [k, worker]))]],
    when: [equals("state", "open"), { absent: ["claims"] }],
  };
}

/**
 * Claims rollouts of a group for a worker, at most a part of `splitIntoWrites`. `takenOver`: per rollout, the dead worker whose claim is
 * replaced.
 */
export function claimRollouts(
  address: GroupAddress,
  rollouts: readonly number[],
  worker: string,
  takenOver: ReadonlyMap<number, string> = new Map(),
): TableChange {
  return {
    key: groupKey(address),
    set: rollouts.map((k) => [["claims", String(k)], worker]),
    when: [
      equals("state", "open"),
      ...rollouts.flatMap((k): TableCondition[] => {
        const dead = takenOver.get(k);
        const claim = ["claims", String(k)];
        return [
          { absent: ["rollouts", String(k)] },
          dead === undefined ? { absent: claim } : { equals: [claim, dead] },
        ];
      }),
    ],
  };
}

/** Releases a claim, so that another attempt may start. */
export function releaseClaim(address: GroupAddress, rollout: number, worker: string): TableChange {
  const claim = ["claims", String(rollout)];
  return { key: groupKey(address), remove: [claim], when: [{ equals: [claim, worker] }] };
}

/** Counts the crash of a worker that ran only this rollout. A repeat sets what is already there. */
export function countCrash(address: GroupAddress, rollout: number, worker: string): TableChange {
  return { key: groupKey(address), set: [[["crashes", worker], rollout]], when: [equals("state", "open")] };
}

/** Records the scores of rollouts, once, at most a part of `splitIntoWrites`. From then on their claims mean nothing. */
export function recordScores(address: GroupAddress, scores: ReadonlyMap<number, RolloutScore>): TableChange {
  const rollouts = [...scores.keys()].map(String);
  return {
    key: groupKey(address),
    set: [...scores].map(([k, score]) => [["rollouts", String(k)], boundedScore(score)]),
    when: [equals("state", "open"), ...rollouts.map((k): TableCondition => ({ absent: ["rollouts", k] }))],
  };
}

function boundedScore(score: RolloutScore): RolloutScore {
  return "excluded" in score ? { excluded: boundReason(score.excluded) } : score;
}

/** Finalizes a complete group with what each agent trains on. The table may delete it from `expiresAt` on, in seconds since 1970. */
export function finalizeGroupRecord(
  address: GroupAddress,
  finalized: Record<string, AgentBatch>,
  expiresAt: number,
): TableChange {
  return {
    key: groupKey(address),
    set: [
      [["finalized"], finalized],
      [["expiresAt"], expiresAt],
      [["state"], "finalized"],
    ],
    when: [equals("state", "open")],
  };
}

/** Appends the replacement groups of one round of dynamic sampling. */
export function replaceGroups(before: StepRecord, after: StepRecord): TableChange {
  return {
    key: tableKeys.step(before.run, before.step),
    set: [
      [["groups"], after.groups],
      [["round"], after.round],
      [["curriculum"], after.curriculum],
    ],
    when: [equals("state", "open"), equals("round", before.round)],
  };
}

/** open -> ready -> closed, each once. A step that becomes ready also gets its count of sampled tokens. */
export function moveStep(step: StepRecord, to: "ready" | "closed"): TableChange {
  return {
    key: tableKeys.step(step.run, step.step),
    set: [[["state"], to], ...(to === "ready" ? [[["sampledTokens"], step.sampledTokens] as const] : [])],
    when: [equals("state", to === "ready" ? "open" : "ready"), equals("round", step.round)],
  };
}

/** Points the run to the next step. */
export function advanceRun(run: RunRecord): TableChange {
  return {
    key: tableKeys.run(run.run),
    set: [[["step"], run.step + 1]],
    when: [equals("status", "running"), equals("step", run.step)],
  };
}

/** running -> finished, or halted. */
export function endRun(run: string, end: "finished" | Halt): TableChange {
  return end === "finished" ? changeStatus(run, "running", "finished") : halt(run, "running", end);
}

/** running -> halted, since too many rollouts were lost. Those of this step and of earlier ones do not halt the run again. */
export function haltForLosses(run: string, step: number, reason: string): TableChange {
  const { set = [], ...change } = endRun(run, { code: "losses", reason });
  return { ...change, set: [...set, [["lossesFrom"], step + 1]] };
}

/** running -> halted, since the budget is spent. Fails if a limit was raised after `run` was read. */
export function haltForBudget(run: RunRecord, reason: string): TableChange {
  const { when, ...change } = endRun(run.run, { code: "budget", reason });
  return { ...change, when: [...when, ...limitNames(run).map((name) => equals(name, run[name]))] };
}

/** The names of the limits that the run has. */
const limitNames = (run: RunRecord) => (["maxHours", "maxUsd"] as const).filter((name) => run[name] !== null);

/** finished -> halted: the remaining evaluations cannot continue. */
export function haltFinished(run: string, why: Halt): TableChange {
  return halt(run, "finished", why);
}

function halt(run: string, from: Status, { code, reason }: Halt): TableChange {
  const { set = [], ...change } = changeStatus(run, from, "halted", boundReason(reason));
  return { ...change, set: [...set, [["haltCode"], code]] };
}

type Status = RunRecord["status"];

function changeStatus(run: string, from: Status, to: Status, reason = ""): TableChange {
  return {
    key: tableKeys.run(run),
    set: [
      [["status"], to],
      [["reason"], reason],
    ],
    when: [equals("status", from)],
  };
}

/** halted -> running, by the user's `resume`. */
export function resumeRun(run: string): TableChange {
  return { ...changeStatus(run, "halted", "running"), remove: [["haltCode"]] };
}

/** Raises what a run may spend, by the user's `resume --budget-…`, and resumes it if it is halted. A finished run stays finished. */
export function raiseBudget(run: RunRecord, limits: Pick<RunRecord, "maxHours" | "maxUsd">): TableChange {
  const known = limitNames(run);
  const status = run.status === "finished" ? "finished" : "running";
  return {
    key: tableKeys.run(run.run),
    set: [[["status"], status], [["reason"], ""], ...known.map((name) => [[name], limits[name]] as const)],
    remove: [["haltCode"]],
    when: [equals("status", run.status), ...known.map((name) => equals(name, run[name]))],
  };
}

/** Advances the cached version of an agent, and resets its takeovers. Any process that has read the manifest of the next version may do so. */
export function advanceAgent(agent: AgentRecord): TableChange {
  return {
    key: tableKeys.agent(agent.run, agent.agent),
    set: [
      [["version"], agent.version + 1],
      [["takeovers"], 0],
    ],
    when: [equals("version", agent.version)],
  };
}

/** Makes a worker the trainer of an agent that has no trainer, or a dead one. */
export function claimTrainer(agent: AgentRecord, worker: string): TableChange {
  return {
    key: tableKeys.agent(agent.run, agent.agent),
    set: [[["trainer"], worker]],
    add: [
      [["fence"], 1],
      [["takeovers"], agent.trainer === "" ? 0 : 1],
    ],
    when: [equals("trainer", agent.trainer), equals("fence", agent.fence)],
  };
}

/** Resets the takeovers that halted the run, so that the resumed run may retry. */
export function resetTakeovers(agent: AgentRecord): TableChange {
  return {
    key: tableKeys.agent(agent.run, agent.agent),
    set: [[["takeovers"], 0]],
    when: [equals("takeovers", agent.takeovers)],
  };
}

/** Releases the trainer's claim when it stops cleanly, so that its successor does not count as a takeover. */
export function releaseTrainer(run: string, agent: string, worker: string): TableChange {
  return { key: tableKeys.agent(run, agent), set: [[["trainer"], ""]], when: [equals("trainer", worker)] };
}

/** How many of a worker's rollouts are running, and how many wait to run alone. */
export type RolloutCounts = Required<Pick<WorkerRecord, "running" | "quarantined">>;

type LiveState = Exclude<WorkerRecord["state"], "dead">;

/** A heartbeat: increments the counter, and sets the rollout counts, if given. Fails if the worker is in another state, such as `dead`. */
export function heartbeat(run: string, worker: string, state: LiveState, counts?: RolloutCounts): TableChange {
  return {
    key: tableKeys.worker(run, worker),
    add: [[["counter"], 1]],
    ...(counts && { set: Object.entries(counts).map(([name, n]) => [[name], n] as const) }),
    when: [equals("state", state)],
  };
}

/** Names the rollouts that a crash of the worker would be blamed on. Leaves the counter as it is, since budgets count heartbeats as time. */
export function setInFlight(run: string, worker: string, state: LiveState, rollouts: readonly string[]): TableChange {
  return { key: tableKeys.worker(run, worker), set: [[["inFlight"], rollouts]], when: [equals("state", state)] };
}

export function drainWorker(run: string, worker: string): TableChange {
  return { key: tableKeys.worker(run, worker), set: [[["state"], "draining"]], when: [equals("state", "alive")] };
}

/** Final: the process can only come back under a new worker id. What a draining worker had in flight did not crash it. */
export function markDead(worker: WorkerRecord): TableChange {
  return {
    key: tableKeys.worker(worker.run, worker.worker),
    set: [[["state"], "dead"], ...(worker.state === "draining" ? [[["inFlight"], []] as const] : [])],
    when: [equals("state", worker.state), equals("counter", worker.counter)],
  };
}

/** Records the counter that tick read, and when, by the store's clock. */
export function recordSeenCounter(worker: WorkerRecord, storeTime: number): TableChange {
  return {
    key: tableKeys.worker(worker.run, worker.worker),
    set: [
      [["seenCounter"], worker.counter],
      [["seenAt"], storeTime],
    ],
    when: [equals("seenCounter", worker.seenCounter)],
  };
}

/** Records that tick found the lease of this counter expired. */
export function suspectDeath(worker: WorkerRecord, storeTime: number): TableChange {
  return {
    key: tableKeys.worker(worker.run, worker.worker),
    set: [[["suspectedAt"], storeTime]],
    when: [equals("counter", worker.counter), equals("seenAt", worker.seenAt)],
  };
}
