/**
 * @file The batch of one agent in one step: what GROUP.sealed names, with weights and advantages, in the order of groups and then of
 * the seal. Trajectories come from this process's own memory or from the store; a missing or mismatched one is an error, never skipped.
 */
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import { parse, parseJson } from "../../core/contracts/parse.ts";
import { GroupRecord, type SealedAgent, type StepRecord } from "../../core/contracts/records.ts";
import { Invocation, Outcome, type Trajectory } from "../../core/contracts/rollout.ts";
import { MgrpoError } from "../../core/errors.ts";
import { groupWeights } from "../../core/mgrpo/batch.ts";
import type { TableItem } from "../../core/ports.ts";
import { batchGroups } from "../../core/training/plan.ts";
import type { Run } from "../run.ts";
import type { TrainingEntry } from "./train-step.ts";
import type { Trajectories } from "./trajectories.ts";

export async function loadBatch(
  run: Run,
  step: StepRecord,
  agent: string,
  own: Trajectories,
): Promise<TrainingEntry[]> {
  const keys = step.groups.map((_, group) => tableKeys.group(run.name, step.step, group));
  const groups = (await run.store.table.getAll(keys)).map((item, group) => sealedGroup(run, step, group, item));
  const parts = batchGroups(run.config, groups).flatMap(({ group, sealed }) =>
    sealed[agent] ? [{ group, sealed: sealed[agent] }] : [],
  );
  const weights = groupWeights(parts.map(({ sealed }) => sealed));
  const load = (group: number, id: number | string) => loadTrajectory(run, step, agent, group, id, own);
  const entries = await Promise.all(
    parts.map(({ group, sealed }, g) =>
      Promise.all(
        sealed.trajectories.map(async (id, i) => ({
          trajectory: await load(group, id),
          advantage: at(sealed, "advantages", i),
          weight: weights[g]?.[i] ?? 0,
          group,
        })),
      ),
    ),
  );
  return entries.flat();
}

function sealedGroup({ name }: Run, step: StepRecord, group: number, item: TableItem | undefined): GroupRecord {
  const what = `GROUP ${step.step}/${group} of ${name}`;
  const record = parse(GroupRecord, item, what);
  if (record.state !== "sealed") throw new MgrpoError("record-damaged", `${what} is not sealed in a ready step`);
  return record;
}

async function loadTrajectory(
  run: Run,
  { step, policy }: StepRecord,
  agent: string,
  group: number,
  id: number | string,
  own: Trajectories,
): Promise<Trajectory> {
  const isRollout = typeof id === "number";
  const key = isRollout
    ? objectKeys.outcome({ run: run.name, phase: "train", step, group, rollout: id })
    : objectKeys.invocation(run.name, step, id);
  const trajectory = own.recall(step, key) ?? (await readTrajectory(run, key, isRollout));
  if (trajectory.agent !== agent || trajectory.version !== policy[agent]) {
    throw new MgrpoError(
      "record-damaged",
      `${key}: trajectory of ${trajectory.agent} version ${trajectory.version}, but step ${step} trains ${agent} version ${policy[agent]}`,
    );
  }
  return trajectory;
}

async function readTrajectory({ store }: Run, key: string, isRollout: boolean): Promise<Trajectory> {
  const bytes = await store.objects.get(key);
  if (!bytes) throw new MgrpoError("record-damaged", `${key} is missing, although its group is sealed: restore it`);
  if (!isRollout) return parseJson(Invocation, bytes, key).trajectory;
  const outcome = parseJson(Outcome, bytes, key);
  if (outcome.status === "finished") return outcome.trajectory;
  throw new MgrpoError("record-damaged", `${key} failed, but its group's seal trains on it`);
}

function at(sealed: SealedAgent, name: "advantages", i: number): number {
  const value = sealed[name][i];
  if (value === undefined) throw new MgrpoError("record-damaged", `sealed.${name} is shorter than sealed.trajectories`);
  return value;
}
