/**
 * @file What a scheduled tick does first: halts a run whose budget is spent or whose trainer was lost too often, marks dead workers, requests
 * scores for outcomes whose event was lost or whose judge failed, finalizes groups whose last scorer died, inserts groups that an interrupted
 * tick did not, abandons rollouts that keep crashing their workers, moves the records of workers that are long dead to PAST, notes a run's
 * progress in the list of runs, and archives runs that are over. With every event dropped, scheduled ticks alone complete a run. A repair never
 * waits for a judge.
 */
import type { RunConfig } from "../core/contracts/config.ts";
import { objectKeys } from "../core/contracts/keys.ts";
import type { GroupRecord, JobRecord, RunRecord, StepRecord, WorkerRecord } from "../core/contracts/records.ts";
import { isMgrpoError } from "../core/errors.ts";
import { undecidedRollouts } from "../core/training/abandon-rollouts.ts";
import { readApiSpendingIfLimited } from "../core/training/api-spending.ts";
import { haltLostTrainers, observeWorkers } from "../core/training/liveness.ts";
import { movePastWorkers } from "../core/training/past-workers.ts";
import { haltIfOverBudget } from "../core/training/run-budget.ts";
import { archiveRun, noteProgress, progressOf } from "../core/training/run-list.ts";
import { repairOpen } from "../core/training/step.ts";
import type { Context } from "./context.ts";
import { readOpenJobs } from "./evaluating.ts";
import { execute, requestScores } from "./executing.ts";
import type { Groups } from "./records.ts";
import { finalizeIfComplete } from "./scoring.ts";

/** Groups that are repaired in parallel: sequentially, a large step would take longer than a function may run. */
const PARALLEL_GROUPS = 16;

/**
 * The budget comes first: nothing that fails or takes long may keep an overspent run going. Returns the evaluation jobs that are not done.
 */
export async function repair(context: Context, record: RunRecord): Promise<readonly JobRecord[]> {
  const { run } = record;
  const { records, clock, runObjects } = context;
  const config = await runObjects.config(run);
  const workers = await records.workers(run);
  const storeTime = await clock.storeTime();
  const status = await haltIfOverspent(context, config, record, workers, storeTime);
  const openJobs = await readOpenJobs(context, run);
  const listed = await records.listedRun(run);
  const steps = status === "running" ? await records.steps(run, record.step, config.staleness + 1) : [];
  const open = await Promise.all(
    steps.filter(({ state }) => state === "open").map(async (step) => ({ step, groups: await records.groups(step) })),
  );
  const openGroups = open.flatMap(({ groups }) => groups.flatMap((group) => (group?.state === "open" ? [group] : [])));
  await execute(context, observeWorkers(config, workers, openGroups, storeTime));
  const isOver = status === "halted" || (status === "finished" && openJobs.length === 0);
  if (isOver) {
    if (listed) await execute(context, archiveRun(listed, status, workers, storeTime));
    return openJobs;
  }
  const agents = await records.agents(run);
  if (status === "running") {
    const groups = open.flatMap((one) => one.groups);
    if (listed) await execute(context, noteProgress(listed, progressOf(steps[0], groups, agents), storeTime));
    await execute(context, haltLostTrainers(run, agents));
    await repairGroups(context, config, open, openGroups);
  }
  // Housekeeping comes last: no repair waits for it.
  const uses = { groups: openGroups, agents, jobs: openJobs };
  await execute(context, movePastWorkers(record, workers, uses, storeTime));
  return openJobs;
}

/**
 * Archives a run that is over, even though its records cannot be read, as after a change of release. Otherwise every later tick would fail on
 * it, and the alarm of a failing tick would hide the failures of other runs.
 */
export async function archiveDamaged(
  context: Context,
  { run, status }: Pick<RunRecord, "run" | "status">,
): Promise<void> {
  if (status === "running" || (status === "finished" && (await readOpenJobs(context, run)).length > 0)) return;
  const listed = await context.records.listedRun(run);
  if (listed) await execute(context, archiveRun(listed, status, [], await context.clock.storeTime()));
}

/** Archives a run that is over, even though its RUN record cannot be read. Rejects with the error of reading it. */
export async function archiveUnreadable(context: Context, run: string, error: unknown): Promise<never> {
  if (isMgrpoError(error, "record-damaged")) {
    const status = await context.records.status(run);
    if (status) await archiveDamaged(context, { run, status });
  }
  throw error;
}

/** Halts a running run whose budget is spent. Returns the run's status. */
async function haltIfOverspent(
  context: Context,
  config: RunConfig,
  record: RunRecord,
  workers: readonly WorkerRecord[],
  storeTime: number,
): Promise<RunRecord["status"]> {
  if (record.status !== "running") return record.status;
  const apiSpending = await readApiSpendingIfLimited(context.table, record);
  const halt = haltIfOverBudget(config, record, workers, apiSpending, storeTime);
  if (halt.length === 0) return record.status;
  await execute(context, halt);
  // The write fails if the run has ended since `record` was read, or continues with a raised limit.
  return (await context.records.run(record.run))?.status ?? "halted";
}

async function repairGroups(
  context: Context,
  config: RunConfig,
  open: readonly { readonly step: StepRecord; readonly groups: Groups }[],
  openGroups: readonly GroupRecord[],
): Promise<void> {
  for (let i = 0; i < openGroups.length; i += PARALLEL_GROUPS)
    await Promise.all(openGroups.slice(i, i + PARALLEL_GROUPS).map((group) => repairGroup(context, group)));
  for (const { step, groups } of open) await execute(context, repairOpen(config, step, groups));
}

/** Requests scores for the group's outcomes whose event was lost or whose judge failed; finalizes the group if it is complete. */
async function repairGroup(context: Context, group: GroupRecord): Promise<void> {
  if (context.hasStalled(group)) {
    const { run, step } = group;
    const keys = undecidedRollouts(group).map((rollout) =>
      objectKeys.outcome({ run, phase: "train", step, group: group.group, rollout }),
    );
    const sizes = await Promise.all(keys.map((key) => context.objects.head(key)));
    await requestScores(
      context,
      keys.filter((_, i) => sizes[i] !== undefined),
    );
  }
  await finalizeIfComplete(context, group);
}
