/**
 * @file What one agent learns from some groups of a step: what GROUP.finalized names, with weights and advantages, in the order of groups
 * and then of the finalize. Trajectories come from this process's own memory or from the store; a missing or mismatched one is an error,
 * never skipped, and so is an object that is not, byte by byte, the one that was scored.
 */
import { objectKeys } from "../../core/contracts/keys.ts";
import { type Digest, digestOf } from "../../core/contracts/names.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import type { AgentBatch, GroupRecord, StepRecord } from "../../core/contracts/records.ts";
import { type AnyTrajectory, Invocation, Outcome, type Trajectory } from "../../core/contracts/rollout.ts";
import { MgrpoError } from "../../core/errors.ts";
import { trajectoryWeights } from "../../core/mgrpo/batch.ts";
import { sha256 } from "../../engine/hash.ts";
import type { Run } from "../run.ts";
import type { TrainingEntry } from "./train-step.ts";
import type { Trajectories } from "./trajectories.ts";

export async function loadEntries(
  run: Run,
  step: StepRecord,
  agent: string,
  groups: readonly GroupRecord[],
  own: Trajectories,
): Promise<TrainingEntry[]> {
  const entries = groups.flatMap((record) => {
    const finalized = record.finalized[agent];
    if (!finalized) return [];
    const scored = scoredIn(record, agent);
    const weights = trajectoryWeights(finalized);
    return finalized.trajectories.map(async (name, i) => ({
      trajectory: await loadTrajectory(run, step, agent, found(scored, record.group, name), own),
      advantage: at(finalized, "advantages", i),
      weight: weights[i] ?? 0,
      group: record.group,
    }));
  });
  return Promise.all(entries);
}

type Name = AgentBatch["trajectories"][number];

/** What a trajectory's score was made from. */
interface Scored {
  readonly group: number;
  /** A rollout's index, or an invocation's id. */
  readonly id: number | string;
  readonly digest: Digest | undefined;
}

/** By the names that a finalize has for them. */
function scoredIn({ group, rollouts }: GroupRecord, agent: string): ReadonlyMap<Name, Scored> {
  const scored = new Map<Name, Scored>();
  for (const [k, score] of Object.entries(rollouts)) {
    if ("excluded" in score) continue;
    scored.set(Number(k), { group, id: Number(k), digest: score.digest });
    for (const [i, { id, digest }] of (score.invocations[agent] ?? []).entries())
      scored.set(`${k}/${i}`, { group, id, digest });
  }
  return scored;
}

function found(scored: ReadonlyMap<Name, Scored>, group: number, name: Name): Scored {
  const trajectory = scored.get(name);
  if (trajectory) return trajectory;
  throw new MgrpoError(
    "record-damaged",
    `the finalize of group ${group} names trajectory ${name}, which nothing was scored for`,
  );
}

async function loadTrajectory(
  run: Run,
  { step, policy }: StepRecord,
  agent: string,
  { group, id, digest }: Scored,
  own: Trajectories,
): Promise<Trajectory> {
  const isRollout = typeof id === "number";
  const key = isRollout
    ? objectKeys.outcome({ run: run.name, phase: "train", step, group, rollout: id })
    : objectKeys.invocation(run.name, step, id);
  if (digest === undefined)
    throw new MgrpoError(
      "record-damaged",
      `GROUP ${step}/${group} of ${run.name} does not say what ${key} was scored as`,
    );
  const trajectory = own.recall(step, key, digest) ?? (await readTrajectory(run, key, isRollout, digest));
  if (trajectory.agent !== agent || trajectory.version !== policy[agent]) {
    throw new MgrpoError(
      "record-damaged",
      `${key}: trajectory of ${trajectory.agent} version ${trajectory.version}, but step ${step} trains ${agent} version ${policy[agent]}`,
    );
  }
  if ("usage" in trajectory) {
    throw new MgrpoError(
      "record-damaged",
      `${key}: '${agent}' spoke through an API, which leaves no tokens to train on`,
    );
  }
  return trajectory;
}

async function readTrajectory({ store }: Run, key: string, isRollout: boolean, digest: Digest): Promise<AnyTrajectory> {
  const bytes = await store.objects.get(key);
  if (!bytes) throw new MgrpoError("record-damaged", `${key} is missing, although its group is finalized: restore it`);
  const found = digestOf(sha256(bytes));
  if (found !== digest)
    throw new MgrpoError(
      "record-damaged",
      `${key} is not what was scored: its digest is ${found}, not ${digest}; somebody replaced it. Nothing was trained on it: restore it, or launch the run anew`,
    );
  if (!isRollout) return parseJson(Invocation, bytes, key).trajectory;
  const outcome = parseJson(Outcome, bytes, key);
  if (outcome.status === "finished") return outcome.trajectory;
  throw new MgrpoError("record-damaged", `${key} failed, but its group's finalize trains on it`);
}

function at(finalized: AgentBatch, name: "advantages", i: number): number {
  const value = finalized[name][i];
  if (value === undefined)
    throw new MgrpoError("record-damaged", `finalized.${name} is shorter than finalized.trajectories`);
  return value;
}
