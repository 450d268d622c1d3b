/**
 * @file What the clock does beyond a tick: sees who is alive, halts what has spent its budget, scores outcomes whose event was lost, finalizes
 * groups whose last scorer died, records evaluations nobody heard of. With every event dropped, this alone ends the run.
 */
import { objectKeys, tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { parse } from "../../core/contracts/parse.ts";
import { type GroupRecord, type RunRecord, WorkerRecord } from "../../core/contracts/records.ts";
import { isMgrpoError } from "../../core/errors.ts";
import { limitedBills } from "../../core/training/bills.ts";
import { haltOverspent } from "../../core/training/budget.ts";
import { undecided } from "../../core/training/give-up.ts";
import { haltLostTrainers, observeWorkers } from "../../core/training/liveness.ts";
import { repairOpen } from "../../core/training/step.ts";
import type { Context } from "../context.ts";
import { findResults } from "./evaluating.ts";
import { execute } from "./executing.ts";
import { readGroups } from "./groups.ts";
import { finalizeIfComplete, scoreAndFinalize } from "./scoring.ts";
import { readAgents } from "./versions.ts";

const GROUPS_AT_ONCE = 16;

export async function repair(context: Context, record: RunRecord): Promise<void> {
  const { run, status, step: index } = record;
  const { table, records, facts, clock } = context;
  await findResults(context, run);
  const config = await facts.config(run);
  const step = status === "running" ? await records.step(run, index) : undefined;
  const groups = step?.state === "open" ? await readGroups(context, step) : [];
  const items = await table.query(tableKeys.run(run).pk, tablePrefixes.workers);
  const workers = items.map((item) => parse(WorkerRecord, item, `WORKER of run '${run}'`));
  const open = groups.flatMap((group) => (group?.state === "open" ? [group] : []));
  const storeTime = await clock.storeTime();
  await execute(context, observeWorkers(config, workers, open, storeTime));
  if (status !== "running") return;
  const bills = await limitedBills(table, record);
  await execute(context, haltOverspent(config, record, workers, bills, storeTime));
  await execute(context, haltLostTrainers(run, await readAgents(context, run)));
  // Many at once: one after another, a large step would take longer than a function may.
  for (let i = 0; i < open.length; i += GROUPS_AT_ONCE)
    await Promise.all(open.slice(i, i + GROUPS_AT_ONCE).map((group) => findOutcomes(context, group)));
  if (step?.state === "open") await execute(context, repairOpen(config, step, groups));
}

/** Scores what the group's events did not. */
async function findOutcomes(context: Context, group: GroupRecord): Promise<void> {
  if (context.stoodStill(group)) {
    const { run, step } = group;
    const addresses = undecided(group).map((rollout) => ({ run, phase: "train", step, group: group.group, rollout }));
    const score = async (address: (typeof addresses)[number]) => {
      if ((await context.objects.head(objectKeys.outcome(address))) === undefined) return;
      await scoreAndFinalize(context, address).catch((error: unknown) => {
        // Counted; the next look asks the judge again. It must not keep the others waiting.
        if (!isMgrpoError(error, "judge-failed")) throw error;
      });
    };
    await Promise.all(addresses.map(score));
  }
  await finalizeIfComplete(context, group);
}
