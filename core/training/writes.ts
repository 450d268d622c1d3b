/**
 * @file The conditional writes of records, as data: what each changes, and under which conditions. Each is safe to repeat: either its
 * condition fails the second time, or it sets what is already there. Evaluation jobs: job-writes.ts; trainers' calls: call-writes.ts.
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
import type { TableChange, TableCondition, TablePath, TableValue } from "../ports.ts";

const is = (attribute: string, value: TableValue): TableCondition => ({ equals: [[attribute], value] });

type FleetRefusal = NonNullable<FleetRecord["refusal"]>;
type GroupAddress = Pick<GroupRecord, "run" | "step" | "group">;
const groupKey = ({ run, step, group }: GroupAddress) => tableKeys.group(run, step, group);

/** Claims rollouts of a group without any claims, in one small write. */
export function claimUnbegun(address: GroupAddress, rollouts: readonly number[], worker: string): TableChange {
  return {
    key: groupKey(address),
    set: [[["claims"], Object.fromEntries(rollouts.map((k) => [k, worker]))]],
    when: [is("state", "open"), { absent: ["claims"] }],
  };
}

/** Claims rollouts of a group for a worker. `takenOver`: per rollout, the dead worker whose claim is replaced. */
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
      is("state", "open"),
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

/** Counts a crash of a worker that ran only this rollout. `known`: the count as read. */
export function countCrash(address: GroupAddress, rollout: number, known: number): TableChange {
  return incrementCount(address, ["crashes", String(rollout)], known);
}

/** A repeat finds another count. */
function incrementCount(address: GroupAddress, path: TablePath, known: number): TableChange {
  return {
    key: groupKey(address),
    set: [[path, known + 1]],
    when: [known === 0 ? { absent: path } : { equals: [path, known] }],
  };
}

/** Records the scores of rollouts, once. From then on their claims mean nothing. */
export function recordScores(address: GroupAddress, scores: ReadonlyMap<number, RolloutScore>): TableChange {
  const rollouts = [...scores.keys()].map(String);
  return {
    key: groupKey(address),
    set: [...scores].map(([k, score]) => [["rollouts", String(k)], score]),
    when: [is("state", "open"), ...rollouts.map((k): TableCondition => ({ absent: ["rollouts", k] }))],
  };
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
    when: [is("state", "open")],
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
    when: [is("state", "open"), is("round", before.round)],
  };
}

/** open -> ready -> closed, each once. A step that becomes ready also gets its count of sampled tokens. */
export function moveStep(step: StepRecord, to: "ready" | "closed"): TableChange {
  return {
    key: tableKeys.step(step.run, step.step),
    set: [[["state"], to], ...(to === "ready" ? [[["sampledTokens"], step.sampledTokens] as const] : [])],
    when: [is("state", to === "ready" ? "open" : "ready"), is("round", step.round)],
  };
}

/** Points the run to the next step. */
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

/** finished -> halted: the remaining evaluations cannot continue. */
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

/** Raises what a run may spend, by the user's `resume --extend-…`, and resumes it if it is halted. A repeat finds other limits. */
export function extendBudget(run: RunRecord, limits: Pick<RunRecord, "maxHours" | "maxUsd">): TableChange {
  const known = (["maxHours", "maxUsd"] as const).filter((name) => run[name] !== null);
  return {
    key: tableKeys.run(run.run),
    set: [[["status"], "running"], [["reason"], ""], ...known.map((name) => [[name], limits[name]] as const)],
    when: [is("status", run.status), ...known.map((name) => is(name, run[name]))],
  };
}

/** Advances the cached version of an agent. Allowed to anyone who has seen manifest v+1. */
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

/** Makes a worker the trainer of an agent that has no trainer, or a dead one. */
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

/** Resets the takeovers that halted the run, so that `resume` may try again. */
export function forgiveTakeovers(agent: AgentRecord): TableChange {
  return {
    key: tableKeys.agent(agent.run, agent.agent),
    set: [[["takeovers"], 0]],
    when: [is("takeovers", agent.takeovers)],
  };
}

/** Releases the trainer's claim when it stops cleanly, so that its successor does not count as a takeover. */
export function releaseTrainer(run: string, agent: string, worker: string): TableChange {
  return { key: tableKeys.agent(run, agent), set: [[["trainer"], ""]], when: [is("trainer", worker)] };
}

/** A heartbeat: increments the counter, and sets what is in flight if that changed. Fails once the worker is marked dead. */
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

/** Final: the process can only come back under a new worker id. */
export function markDead(worker: WorkerRecord): TableChange {
  return {
    key: tableKeys.worker(worker.run, worker.worker),
    set: [[["state"], "dead"]],
    when: [is("state", worker.state), is("counter", worker.counter)],
  };
}

/** Notes the counter that tick saw, and when, in the store's time. */
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

/** Gives a worker a place of its fleet in a run: a free one, or that of a dead worker. */
export function takePlace(known: FleetRecord, place: string, worker: string): TableChange {
  const path = ["places", place];
  const before = known.places[place];
  const when: TableCondition = before === undefined ? { absent: path } : { equals: [path, before] };
  return { key: fleetKey(known), set: [[path, worker]], when: [when] };
}

/** Counts a request for instances while the run was at `progress`. A repeat finds another count. */
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

/** Records why an instance does not serve the run. The last refusal counts; a repeat says the same. */
export function refuseRun(known: Pick<FleetRecord, "run" | "fleet">, refusal: FleetRefusal): TableChange {
  return { key: fleetKey(known), set: [[["refusal"], refusal]], when: [] };
}

/** Resets requests and refusals, so that a run that is launched again gets new instances. */
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
