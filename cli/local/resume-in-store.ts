/** @file Resumes a run that is in its store: with a larger budget if the user extends it, never past a spent one. */
import type { RunConfig } from "../../core/contracts/config.ts";
import { tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { parse } from "../../core/contracts/parse.ts";
import { FleetRecord, type RunRecord, ToolSpendingRecord, WorkerRecord } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Store, Table, TableResult } from "../../core/ports.ts";
import { readBills } from "../../core/training/bills.ts";
import { forgiveFleet } from "../../core/training/fleet-writes.ts";
import {
  type BudgetExtension,
  extendLimits,
  extendsBudget,
  overBudgetReason,
  type Spending,
  spending,
} from "../../core/training/run-budget.ts";
import { extendToolBudget, overToolBudgetReason } from "../../core/training/tool-spending.ts";
import { extendBudget, resumeRun } from "../../core/training/writes.ts";

type Resumed = Pick<Store, "table" | "clock">;

export async function resumeInStore(
  store: Resumed,
  config: RunConfig,
  record: RunRecord,
  extension: BudgetExtension,
): Promise<void> {
  const { table } = store;
  const { run, status } = record;
  if (status === "finished") {
    if (!extendsBudget(extension)) return;
    throw new MgrpoError("config-invalid", `run '${run}' is finished: there is nothing to extend`);
  }
  if (status === "halted") await forgiveFleets(table, run);
  const tools = await readTools(table, run);
  const { hours, usd, toolCalls, toolUsd } = extension;
  const extendsTools = toolCalls !== undefined || toolUsd !== undefined;
  if (extendsTools) {
    if (!tools) throw new MgrpoError("config-invalid", `run '${run}' has no tools that count: leave the option out`);
    await applied(run, table.update(extendToolBudget(tools, extension)));
  }
  const spent = await readSpent(store, config, record);
  if (hours !== undefined || usd !== undefined) {
    return applied(run, table.update(extendBudget(record, extendLimits(record, spent, extension))));
  }
  const reason = overBudgetReason(record, spent) ?? (tools && !extendsTools ? overToolBudgetReason(tools) : undefined);
  if (reason !== undefined) throw new MgrpoError("run-halted", `run '${run}' cannot resume: ${reason}`);
  if (status === "halted") await table.update(resumeRun(run));
}

/** Fleets that refused the run may try again. */
async function forgiveFleets(table: Table, run: string): Promise<void> {
  for (const item of await table.query(tableKeys.run(run).pk, tablePrefixes.fleets))
    await table.update(forgiveFleet(parse(FleetRecord, item, `FLEET of run '${run}'`)));
}

async function readTools(table: Table, run: string): Promise<ToolSpendingRecord | undefined> {
  const item = await table.get(tableKeys.toolSpending(run));
  return item && parse(ToolSpendingRecord, item, `TOOLS of run '${run}'`);
}

async function readSpent({ table, clock }: Resumed, config: RunConfig, record: RunRecord): Promise<Spending> {
  const { run } = record;
  const items = await table.query(tableKeys.run(run).pk, tablePrefixes.workers);
  const workers = items.map((item) => parse(WorkerRecord, item, `WORKER of run '${run}'`));
  return spending(config, record, workers, await readBills(table, run), await clock.storeTime());
}

async function applied(run: string, update: Promise<TableResult>): Promise<void> {
  if ((await update).applied) return;
  throw new MgrpoError("config-invalid", `run '${run}' has just been changed by another process: try again`);
}
