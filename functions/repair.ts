/**
 * @file What the clock's tick does first: marks dead workers, halts a run whose budget is spent, scores outcomes whose event was lost,
 * finalizes groups whose last scorer died, records missed evaluations, and archives runs that are over. With every event dropped, this
 * alone completes a run.
 */
import type { RunConfig } from "../core/contracts/config.ts";
import { objectKeys } from "../core/contracts/keys.ts";
import type { GroupRecord, RunRecord, StepRecord } from "../core/contracts/records.ts";
import type { RolloutAddress } from "../core/contracts/rollout.ts";
import { isMgrpoError } from "../core/errors.ts";
import { readBillsIfLimited } from "../core/training/bills.ts";
import { archiveRun, noteProgress, progressOf } from "../core/training/clock-list.ts";
import { undecidedRollouts } from "../core/training/give-up.ts";
import { haltLostTrainers, observeWorkers } from "../core/training/liveness.ts";
import { haltIfOverBudget } from "../core/training/run-budget.ts";
import { repairOpen } from "../core/training/step.ts";
import type { Context } from "./context.ts";
import { recordMissedResults } from "./evaluating.ts";
import { execute } from "./executing.ts";
import type { Groups } from "./records.ts";
import { finalizeIfComplete, scoreAndFinalize } from "./scoring.ts";

/** Groups that are repaired in parallel: sequentially, a large step would take longer than a function may run. */
const PARALLEL_GROUPS = 16;

export async function repair(context: Context, record: RunRecord): Promise<void> {
  const { run, status } = record;
  const { table, records, clock } = context;
  const openJobs = await recordMissedResults(context, run);
  const listed = await records.listedRun(run);
  const config = await context.runObjects.config(run);
  const step = status === "running" ? await records.step(run, record.step) : undefined;
  const groups = step?.state === "open" ? await records.groups(step) : [];
  const openGroups = groups.flatMap((group) => (group?.state === "open" ? [group] : []));
  const workers = await records.workers(run);
  const storeTime = await clock.storeTime();
  await execute(context, observeWorkers(config, workers, openGroups, storeTime));
  if (status !== "running") {
    const isOver = status === "halted" || openJobs === 0;
    if (listed && isOver) await execute(context, archiveRun(listed, status, workers, storeTime));
    return;
  }
  const bills = await readBillsIfLimited(table, record);
  await execute(context, haltIfOverBudget(config, record, workers, bills, storeTime));
  const agents = await records.agents(run);
  if (listed) await execute(context, noteProgress(listed, progressOf(step, groups, agents), storeTime));
  await execute(context, haltLostTrainers(run, agents));
  await repairGroups(context, config, step, groups, openGroups);
}

async function repairGroups(
  context: Context,
  config: RunConfig,
  step: StepRecord | undefined,
  groups: Groups,
  openGroups: readonly GroupRecord[],
): Promise<void> {
  for (let i = 0; i < openGroups.length; i += PARALLEL_GROUPS)
    await Promise.all(openGroups.slice(i, i + PARALLEL_GROUPS).map((group) => scoreMissedOutcomes(context, group)));
  if (step?.state === "open") await execute(context, repairOpen(config, step, groups));
}

/** Scores the group's outcomes whose event was lost, then finalizes the group if it is complete. */
async function scoreMissedOutcomes(context: Context, group: GroupRecord): Promise<void> {
  if (context.hasStalled(group)) {
    const { run, step } = group;
    const score = async (address: RolloutAddress) => {
      if ((await context.objects.head(objectKeys.outcome(address))) === undefined) return;
      await scoreAndFinalize(context, address).catch((error: unknown) => {
        // The failure is counted, and the next repair asks the judge again. It must not hold up the other rollouts.
        if (!isMgrpoError(error, "judge-failed")) throw error;
      });
    };
    const undecided = undecidedRollouts(group);
    await Promise.all(undecided.map((rollout) => score({ run, phase: "train", step, group: group.group, rollout })));
  }
  await finalizeIfComplete(context, group);
}
