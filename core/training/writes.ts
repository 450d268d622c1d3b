/**
 * @file Every conditional write of the program but those of evaluation jobs (job-writes.ts) and of trainers' calls (call-writes.ts), as
 * data: what it changes, and under which named conditions. One can read here why each is safe to repeat: either its condition fails the
 * second time, or it sets what is already there.
 */
import { tableKeys } from "../contracts/keys.ts";
import type {
  AgentBatch,
  AgentRecord,
  FleetRecord,
  GroupRecord,
  RolloutScore,
  RunRecord,
  StepRecord,
  WorkerRecord,
} from "../contracts/records.ts";
import type { TableChange, TableCondition, TableValue } from "../ports.ts";

const is = (attribute: string, value: TableValue): TableCondition => ({ equals: [[attribute], value] });

type Refusal = NonNullable<FleetRecord["refusal"]>;
type GroupAddress = Pick<GroupRecord, "run" | "step" | "group">;
const groupKey = ({ run, step, group }: GroupAddress) => tableKeys.group(run, step, group);

/** Claims rollouts of a group that nobody has begun, for a worker, in one small write. */
export function claimUnbegun(address: GroupAddress, rollouts: readonly number[], worker: string): TableChange {
  return {
    key: groupKey(address),
    set: [[["claims"], Object.fromEntries(rollouts.map((k) => [k, worker]))]],
    when: [is("state", "open"), { absent: ["claims"] }],
  };
}

/** Claims rollouts of one group for a worker; `instead` names, per rollout, the dead worker whose claim it takes over. */
export function claimRollouts(
  address: GroupAddress,
  rollouts: readonly number[],
  worker: string,
  instead: ReadonlyMap<number, string> = new Map(),
): TableChange {
  return {
    key: groupKey(address),
    set: rollouts.map((k) => [["claims", String(k)], worker]),
    when: [
      is("state", "open"),
      ...rollouts.flatMap((k): TableCondition[] => {
        const dead = instead.get(k);
        const claim = ["claims", String(k)];
        return [
          { absent: ["rollouts", String(k)] },
          dead === undefined ? { absent: claim } : { equals: [claim, dead] },
        ];
      }),
    ],
  };
}

/** Gives a claim back, so that another attempt may start. */
export function releaseClaim(address: GroupAddress, rollout: number, worker: string): TableChange {
  const claim = ["claims", String(rollout)];
  return { key: groupKey(address), remove: [claim], when: [{ equals: [claim, worker] }] };
}

/** Records that a rollout was alone in flight when its worker died. `known` is the count as read. */
export function countCrash(address: GroupAddress, rollout: number, known: number): TableChange {
  const path = ["crashes", String(rollout)];
  return {
    key: groupKey(address),
    set: [[path, known + 1]],
    when: [known === 0 ? { absent: path } : { equals: [path, known] }],
  };
}

/** Records that the judge of a finished rollout failed. `known` is the count as read. */
export function countJudgeFailure(address: GroupAddress, rollout: number, known: number): TableChange {
  const path = ["crashes", judgeFailureKey(rollout)];
  return {
    key: groupKey(address),
    set: [[path, known + 1]],
    when: [known === 0 ? { absent: path } : { equals: [path, known] }],
  };
}

/** Where GROUP.crashes counts the judge's failures on a rollout. */
export const judgeFailureKey = (rollout: number) => `judge-${rollout}`;

/** Records the scores of rollouts once; whoever repeats the scoring finds them there. From then on their claims mean nothing. */
export function recordScores(address: GroupAddress, scores: ReadonlyMap<number, RolloutScore>): TableChange {
  const rollouts = [...scores.keys()].map(String);
  return {
    key: groupKey(address),
    set: [...scores].map(([k, score]) => [["rollouts", String(k)], score]),
    when: [is("state", "open"), ...rollouts.map((k): TableCondition => ({ absent: ["rollouts", k] }))],
  };
}

/** Finalizes a complete group with what each agent trains on. From `expiresAt` on, in seconds since 1970, it may be forgotten. */
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
    when: [is("state", "open")],
  };
}

/** Appends replacement groups in one round of dynamic sampling. */
export function replaceGroups(before: StepRecord, after: StepRecord): TableChange {
  return {
    key: tableKeys.step(before.run, before.step),
    set: [
      [["groups"], after.groups],
      [["round"], after.round],
      [["curriculum"], after.curriculum],
    ],
    when: [is("state", "open"), is("round", before.round)],
  };
}

/** open -> ready -> closed, each once. A step that gets ready tells what was sampled in it. */
export function moveStep(step: StepRecord, to: "ready" | "closed"): TableChange {
  return {
    key: tableKeys.step(step.run, step.step),
    set: [[["state"], to], ...(to === "ready" ? [[["sampledTokens"], step.sampledTokens] as const] : [])],
    when: [is("state", to === "ready" ? "open" : "ready"), is("round", step.round)],
  };
}

/** The run's pointer moves on by one step. */
export function advanceRun(run: RunRecord): TableChange {
  return {
    key: tableKeys.run(run.run),
    set: [[["step"], run.step + 1]],
    when: [is("status", "running"), is("step", run.step)],
  };
}

/** running -> finished or halted, with the reason. */
export function endRun(run: string, status: "finished" | "halted", reason: string): TableChange {
  return changeStatus(run, "running", status, reason);
}

/** finished -> halted: what is left to evaluate cannot go on. */
export function haltFinished(run: string, reason: string): TableChange {
  return changeStatus(run, "finished", "halted", reason);
}

type Status = RunRecord["status"];

function changeStatus(run: string, from: Status, to: Status, reason: string): TableChange {
  return {
    key: tableKeys.run(run),
    set: [
      [["status"], to],
      [["reason"], reason],
    ],
    when: [is("status", from)],
  };
}

/** halted -> running, by the user's `resume`. */
export function resumeRun(run: string): TableChange {
  return changeStatus(run, "halted", "running", "");
}

/** Raises what a run may spend, by the user's `resume --extend-…`, and lets it run if it was halted. A repeat finds other limits. */
export function extendBudget(run: RunRecord, limits: Pick<RunRecord, "maxHours" | "maxUsd">): TableChange {
  const known = (["maxHours", "maxUsd"] as const).filter((name) => run[name] !== null);
  return {
    key: tableKeys.run(run.run),
    set: [[["status"], "running"], [["reason"], ""], ...known.map((name) => [[name], limits[name]] as const)],
    when: [is("status", run.status), ...known.map((name) => is(name, run[name]))],
  };
}

/** Advances the cache of an agent's newest version; anyone who has seen manifest v+1 may. */
export function advanceAgent(agent: AgentRecord): TableChange {
  return {
    key: tableKeys.agent(agent.run, agent.agent),
    set: [
      [["version"], agent.version + 1],
      [["takeovers"], 0],
    ],
    when: [is("version", agent.version)],
  };
}

/** Makes a worker the trainer of an agent, instead of nobody or of one that is gone. */
export function claimTrainer(agent: AgentRecord, worker: string): TableChange {
  return {
    key: tableKeys.agent(agent.run, agent.agent),
    set: [[["trainer"], worker]],
    add: [
      [["fence"], 1],
      [["takeovers"], agent.trainer === "" ? 0 : 1],
    ],
    when: [is("trainer", agent.trainer), is("fence", agent.fence)],
  };
}

/** Forgets the takeovers that halted the run, so that `resume` may try again. */
export function forgiveTakeovers(agent: AgentRecord): TableChange {
  return {
    key: tableKeys.agent(agent.run, agent.agent),
    set: [[["takeovers"], 0]],
    when: [is("takeovers", agent.takeovers)],
  };
}

/** A trainer that stops cleanly leaves the place empty, so that its successor is no takeover. */
export function releaseTrainer(run: string, agent: string, worker: string): TableChange {
  return { key: tableKeys.agent(run, agent), set: [[["trainer"], ""]], when: [is("trainer", worker)] };
}

/** A heartbeat: the counter, and what is in flight, if it changed. Fails once the worker is marked dead. */
export function heartbeat(
  run: string,
  worker: string,
  state: "alive" | "draining",
  inFlight?: readonly string[],
): TableChange {
  return {
    key: tableKeys.worker(run, worker),
    add: [[["counter"], 1]],
    ...(inFlight && { set: [[["inFlight"], inFlight]] }),
    when: [is("state", state)],
  };
}

export function drainWorker(run: string, worker: string): TableChange {
  return { key: tableKeys.worker(run, worker), set: [[["state"], "draining"]], when: [is("state", "alive")] };
}

/** Final: a worker so marked comes back only as a new incarnation. */
export function markDead(worker: WorkerRecord): TableChange {
  return {
    key: tableKeys.worker(worker.run, worker.worker),
    set: [[["state"], "dead"]],
    when: [is("state", worker.state), is("counter", worker.counter)],
  };
}

/** What tick saw of a worker: its counter, and since when in the store's time. */
export function sawWorker(worker: WorkerRecord, storeTime: number): TableChange {
  return {
    key: tableKeys.worker(worker.run, worker.worker),
    set: [
      [["seenCounter"], worker.counter],
      [["seenAt"], storeTime],
    ],
    when: [is("seenCounter", worker.seenCounter)],
  };
}

const fleetKey = ({ run, fleet }: Pick<FleetRecord, "run" | "fleet">) => tableKeys.fleet(run, fleet);

/** Gives a worker a place in its fleet's part of a run: one that nobody has, or that of a dead worker. */
export function takePlace(known: FleetRecord, place: string, worker: string): TableChange {
  const path = ["places", place];
  const before = known.places[place];
  const when: TableCondition = before === undefined ? { absent: path } : { equals: [path, before] };
  return { key: fleetKey(known), set: [[path, worker]], when: [when] };
}

/** Counts that instances were asked for while the run was at `progress`; a repeat finds another count. */
export function countRaise(known: FleetRecord, progress: number): TableChange {
  return {
    key: fleetKey(known),
    set: [
      [["progress"], progress],
      [["raises"], known.progress === progress ? known.raises + 1 : 1],
    ],
    when: [is("progress", known.progress), is("raises", known.raises)],
  };
}

/** An instance says why it does not serve the run. The last one's word counts; a repeat says the same. */
export function refuseRun(known: Pick<FleetRecord, "run" | "fleet">, refusal: Refusal): TableChange {
  return { key: fleetKey(known), set: [[["refusal"], refusal]], when: [] };
}

/** Forgets the instances that came up in vain or refused, so that a run that is launched again gets new ones. */
export function forgiveFleet(known: FleetRecord): TableChange {
  return {
    key: fleetKey(known),
    set: [
      [["raises"], 0],
      [["refusal"], null],
    ],
    when: [is("raises", known.raises)],
  };
}
