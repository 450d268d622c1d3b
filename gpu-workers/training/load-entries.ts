/**
 * @file Loads what one agent trains on in some groups of a step: the trajectories that GROUP.finalized names, in the order of groups and then
 * of the record, with the weights that core computes. Trajectories come from this process's memory or from the store. An object that is
 * missing, or whose bytes are not the scored ones, is an error, never skipped.
 */
import { algorithmOf } from "../../core/contracts/algorithm-overrides.ts";
import { objectKeys } from "../../core/contracts/keys.ts";
import { type Digest, digestOf } from "../../core/contracts/names.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import type { AgentBatch, GroupRecord, StepRecord } from "../../core/contracts/records.ts";
import {
  type AnyTrajectory,
  Invocation,
  mainTrajectories,
  Outcome,
  type Trajectory,
} from "../../core/contracts/rollout.ts";
import { trajectoryName } from "../../core/contracts/telemetry.ts";
import { MgrpoError } from "../../core/errors.ts";
import { lossTerms } from "../../core/mgrpo/batch.ts";
import { sha256 } from "../../engine/hash.ts";
import type { RunContext } from "../run-context.ts";
import type { TrainingEntry } from "./train-step.ts";
import type { TrajectoryCache } from "./trajectories.ts";

export async function loadEntries(
  run: RunContext,
  step: StepRecord,
  agent: string,
  groups: readonly GroupRecord[],
  cache: TrajectoryCache,
): Promise<TrainingEntry[]> {
  const entries = await Promise.all(
    groups.map(async (record): Promise<TrainingEntry[]> => {
      const finalized = record.finalized[agent];
      if (!finalized) return [];
      const scored = scoredTrajectories(record, agent);
      const objects = finalized.trajectories.map((name) => requireScored(run, step, record, scored, name));
      const trajectories = await Promise.all(objects.map((object) => loadBranches(run, step, agent, object, cache)));
      const actionTokens_N = trajectories.map((branches) =>
        branches.reduce((sum, one) => sum + one.logProbs.length, 0),
      );
      const terms = lossTerms(finalized, actionTokens_N, algorithmOf(run.config, agent));
      return trajectories.flatMap((branches, i) => {
        const [term, object] = [terms[i], objects[i]];
        if (!term || !object) return [];
        const { group } = record;
        const name = (branch: number) => trajectoryName(group, object.id, branch);
        const entry = { group, groupStd: finalized.std, ...term };
        return branches.map((trajectory, branch) => ({ trajectory, name: name(branch), ...entry }));
      });
    }),
  );
  return entries.flat();
}

type TrajectoryName = AgentBatch["trajectories"][number];

/** The object that a trajectory's score was computed from. */
interface ScoredObject {
  readonly group: number;
  /** A rollout's index, or an invocation's id. */
  readonly id: number | string;
  readonly digest: Digest | undefined;
}

/** The objects behind an agent's scores in a group, by their names in `AgentBatch.trajectories`. */
function scoredTrajectories(
  { group, rollouts }: GroupRecord,
  agent: string,
): ReadonlyMap<TrajectoryName, ScoredObject> {
  const scored = new Map<TrajectoryName, ScoredObject>();
  for (const [k, score] of Object.entries(rollouts)) {
    if ("excluded" in score) continue;
    scored.set(Number(k), { group, id: Number(k), digest: score.digest });
    for (const [i, { id, digest }] of (score.invocations[agent] ?? []).entries())
      scored.set(`${k}/${i}`, { group, id, digest });
  }
  return scored;
}

function requireScored(
  run: RunContext,
  { step }: StepRecord,
  { group }: GroupRecord,
  scored: ReadonlyMap<TrajectoryName, ScoredObject>,
  name: TrajectoryName,
): ScoredObject {
  const object = scored.get(name);
  if (object) return object;
  const message = `GROUP ${step}/${group} of ${run.name} is finalized with trajectory ${name}, which has no score`;
  throw new MgrpoError("record-damaged", message);
}

/** A trajectory, or the branches that together have the weight of one. */
async function loadBranches(
  run: RunContext,
  { step, policy }: StepRecord,
  agent: string,
  { group, id, digest }: ScoredObject,
  cache: TrajectoryCache,
): Promise<Trajectory[]> {
  const isRollout = typeof id === "number";
  const key = isRollout
    ? objectKeys.outcome({ run: run.name, phase: "train", step, group, rollout: id })
    : objectKeys.invocation(run.name, step, id);
  if (digest === undefined)
    throw new MgrpoError("record-damaged", `GROUP ${step}/${group} of ${run.name} has no digest of ${key}`);
  const branches = cache.get(step, key, digest) ?? (await readBranches(run, key, isRollout, digest));
  return branches.map((trajectory) => checkedTrajectory(trajectory, key, { step, policy }, agent));
}

function checkedTrajectory(
  trajectory: AnyTrajectory,
  key: string,
  { step, policy }: Pick<StepRecord, "step" | "policy">,
  agent: string,
): Trajectory {
  if (trajectory.agent !== agent || trajectory.version !== policy[agent]) {
    throw new MgrpoError(
      "record-damaged",
      `${key} is a trajectory of ${trajectory.agent} version ${trajectory.version}, but step ${step} trains on ${agent} version ${policy[agent]}`,
    );
  }
  if ("usage" in trajectory) {
    const message = `${key}: '${agent}' was sampled through an API, which returns no tokens to train on`;
    throw new MgrpoError("record-damaged", message);
  }
  return trajectory;
}

async function readBranches(
  { store }: RunContext,
  key: string,
  isRollout: boolean,
  digest: Digest,
): Promise<readonly AnyTrajectory[]> {
  const bytes = await store.objects.get(key);
  if (!bytes) throw new MgrpoError("record-damaged", `${key} is missing, although its group is finalized: restore it`);
  const found = digestOf(sha256(bytes));
  if (found !== digest)
    throw new MgrpoError(
      "record-damaged",
      `${key} was replaced after it was scored: its digest is ${found}, not ${digest}. Nothing was trained on it: restore it, or start a new run`,
    );
  if (!isRollout) return [parseJson(Invocation, bytes, key).trajectory];
  const outcome = parseJson(Outcome, bytes, key);
  if (outcome.status === "finished") return mainTrajectories(outcome);
  throw new MgrpoError("record-damaged", `${key} failed, but its finalized group trains on it`);
}
