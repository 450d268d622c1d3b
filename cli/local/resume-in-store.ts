/**
 * @file Resumes a run that is in its store: with a larger budget if the user raises it, and never with a spent one. Evaluations that lost
 * answers, even of a finished run, are queued again.
 *
 *     refused, or allowed ──> evaluations reopened ──> fleets reset ──> TOOLS: budget raised ──> RUN: running, unless finished
 *                                                                                                  └──> listed (core/training/run-list.ts)
 *
 * Reopening reads and deletes many objects, so it comes before RUN changes: if it fails, RUN is as it was, and the same call may be
 * made again.
 */
import { RunConfig } from "../../core/contracts/config.ts";
import { FleetRecord } from "../../core/contracts/fleet-record.ts";
import { objectKeys, tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { canonicalJson, parse, parseJson } from "../../core/contracts/parse.ts";
import { type RunRecord, WorkerRecord } from "../../core/contracts/records.ts";
import { ToolSpendingRecord } from "../../core/contracts/spending.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Store, Table, TableChange, TableItem, TableResult } from "../../core/ports.ts";
import { readApiSpending } from "../../core/training/api-spending.ts";
import { differences } from "../../core/training/differences.ts";
import { resetFleet } from "../../core/training/fleet-writes.ts";
import {
  overBudgetReason,
  type RaisedBudget,
  raisedLimits,
  raisesBudget,
  type Spending,
  spending,
} from "../../core/training/run-budget.ts";
import { relistRun } from "../../core/training/run-list.ts";
import { overToolBudgetReason, raiseToolBudget } from "../../core/training/tool-spending.ts";
import { raiseBudget, resumeRun } from "../../core/training/writes.ts";
import { refuseExpired } from "./expired-step.ts";
import { hasEvaluationsToDo, reopenLost } from "./reopen-lost.ts";

export async function resumeInStore(
  store: Store,
  config: RunConfig,
  record: RunRecord,
  raised: RaisedBudget,
): Promise<void> {
  const { table, clock } = store;
  const changes = await changesOf(store, config, record, raised);
  await reopenLost(store, config);
  await resetFleets(table, record.run);
  for (const change of changes) await apply(table, record.run, change);
  await relistRun(table, record.run, await clock.storeTime());
}

/**
 * Refuses a config other than the one in the store, which functions and workers read: only this process would follow
 * the other config, and could wait for an evaluation that they never begin. `file`: where the config is from.
 */
export async function refuseEdited({ objects }: Store, config: RunConfig, file: string): Promise<void> {
  const key = objectKeys.config(config.run);
  const stored = await objects.get(key);
  if (!stored) return;
  const [edited, begun] = [config, parseJson(RunConfig, stored, key)].map((one) => JSON.parse(canonicalJson(one)));
  const found = differences(edited, begun);
  if (found.length === 0) return;
  throw new MgrpoError(
    "config-invalid",
    `${file} is not the config that the run began with: ${found.join("; ")}; restore it, or train another run with these settings`,
  );
}

/** What resuming changes in TOOLS and RUN. Rejects where the run cannot resume. */
async function changesOf(
  store: Store,
  config: RunConfig,
  record: RunRecord,
  raised: RaisedBudget,
): Promise<TableChange[]> {
  const { table } = store;
  const { run, status } = record;
  const isFinished = status === "finished";
  // The budget of a finished run limits only its evaluations.
  if (isFinished && !raisesBudget(raised) && !(await hasEvaluationsToDo(store, run))) return [];
  if (!isFinished) await refuseExpired(store, record);
  const tools = await readTools(table, run);
  const { hours, usd, toolCalls, toolUsd } = raised;
  const raisesTools = toolCalls !== undefined || toolUsd !== undefined;
  if (raisesTools && !tools)
    throw new MgrpoError("config-invalid", `run '${run}' has no metered tools: leave out --budget-tool-*`);
  const spent = await readSpent(store, config, record);
  const limits = raisedLimits(record, spent, raised);
  const toolChange = tools && raisesTools ? raiseToolBudget(tools, raised) : undefined;
  // Checks every limit, as raised, before the first write.
  const reason = overBudgetReason(limits, spent) ?? (tools && overToolBudgetReason(withToolLimits(tools, raised)));
  if (reason !== undefined) throw new MgrpoError("run-halted", `run '${run}' cannot resume: ${reason}`);
  const raisesRun = hours !== undefined || usd !== undefined;
  const runChange = raisesRun ? raiseBudget(record, limits) : status === "halted" ? resumeRun(run) : undefined;
  return [toolChange, runChange].flatMap((change) => change ?? []);
}

const withToolLimits = (tools: ToolSpendingRecord, { toolCalls, toolUsd }: RaisedBudget): ToolSpendingRecord => ({
  ...tools,
  maxCalls: toolCalls ?? tools.maxCalls,
  maxUsd: toolUsd ?? tools.maxUsd,
});

/** Lets the fleets that refused the run, or that it gave up on, try again. A finished run may need one for its evaluations. */
async function resetFleets(table: Table, run: string): Promise<void> {
  const items = await table.query(tableKeys.run(run).pk, tablePrefixes.fleets);
  for (const item of items) await resetUntilApplied(table, run, item);
}

/** A tick may count a request after the record is read: the write is then refused, and repeated with the new count. */
async function resetUntilApplied(table: Table, run: string, item: TableItem): Promise<void> {
  let known: TableItem | undefined = item;
  while (known) {
    const change = resetFleet(parse(FleetRecord, known, `FLEET of run '${run}'`));
    const result: TableResult = await table.update(change);
    if (result.applied) return;
    known = result.item;
  }
}

async function readTools(table: Table, run: string): Promise<ToolSpendingRecord | undefined> {
  const item = await table.get(tableKeys.toolSpending(run));
  return item && parse(ToolSpendingRecord, item, `TOOLS of run '${run}'`);
}

async function readSpent({ table, clock }: Store, config: RunConfig, record: RunRecord): Promise<Spending> {
  const { run } = record;
  const items = await table.query(tableKeys.run(run).pk, tablePrefixes.workers);
  const workers = items.map((item) => parse(WorkerRecord, item, `WORKER of run '${run}'`));
  return spending(config, record, workers, await readApiSpending(table, run), await clock.storeTime());
}

/** Applies a change. An earlier attempt may have made it, and lost the reply. */
async function apply(table: Table, run: string, change: TableChange): Promise<void> {
  const { applied, item } = await table.update(change);
  const isMade = change.set?.every(([[name = ""], value]) => item?.[name] === value);
  if (!applied && !isMade)
    throw new MgrpoError("config-invalid", `run '${run}' has just been changed by another process: try again`);
}
