/** @file Resumes a run that is in its store: with a larger budget if the user extends it, and never with a spent one. */
import { randomUUID } from "node:crypto";
import type { RunConfig } from "../../core/contracts/config.ts";
import { tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { parse } from "../../core/contracts/parse.ts";
import { FleetRecord, type RunRecord, WorkerRecord } from "../../core/contracts/records.ts";
import { ToolSpendingRecord } from "../../core/contracts/spending.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { Store, Table, TableChange } from "../../core/ports.ts";
import { readBills } from "../../core/training/bills.ts";
import { relistRun } from "../../core/training/clock-list.ts";
import { resetFleet } from "../../core/training/fleet-writes.ts";
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
import { refuseExpired } from "./expired-step.ts";

type Resumed = Pick<Store, "table" | "clock" | "objects">;

/** Resumes the run, then adds it to the clock's list again, in this order (core/training/clock-list.ts). */
export async function resumeInStore(
  store: Resumed,
  config: RunConfig,
  record: RunRecord,
  extension: BudgetExtension,
): Promise<void> {
  await resumeRecord(store, config, record, extension);
  await relistRun(store.table, record.run, await store.clock.storeTime());
}

async function resumeRecord(
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
  await refuseExpired(store, record);
  if (status === "halted") await forgiveFleets(table, run);
  const tools = await readTools(table, run);
  const { hours, usd, toolCalls, toolUsd } = extension;
  const extendsTools = toolCalls !== undefined || toolUsd !== undefined;
  const spent = await readSpent(store, config, record);
  const limits = extendLimits(record, spent, extension);
  const id = randomUUID();
  if (extendsTools) {
    if (!tools) throw new MgrpoError("config-invalid", `run '${run}' has no metered tools: leave the option out`);
    await apply(table, run, extendToolBudget(tools, extension, id), id);
  }
  if (hours !== undefined || usd !== undefined) {
    const done = extendsTools ? "; the tools' budget has already been extended: leave that option out" : "";
    return apply(table, run, extendBudget(record, limits, id), id, done);
  }
  const reason = overBudgetReason(record, spent) ?? (tools && !extendsTools ? overToolBudgetReason(tools) : undefined);
  if (reason !== undefined) throw new MgrpoError("run-halted", `run '${run}' cannot resume: ${reason}`);
  if (status === "halted") await table.update(resumeRun(run));
}

/** Lets fleets that refused the run try again. */
async function forgiveFleets(table: Table, run: string): Promise<void> {
  for (const item of await table.query(tableKeys.run(run).pk, tablePrefixes.fleets))
    await table.update(resetFleet(parse(FleetRecord, item, `FLEET of run '${run}'`)));
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

/** Applies the extension `id`. An earlier attempt may have applied it and lost the reply. `done`: what the user must not repeat. */
async function apply(table: Table, run: string, change: TableChange, id: string, done = ""): Promise<void> {
  const { applied, item } = await table.update(change).catch((error: unknown) => {
    if (!isMgrpoError(error, "store-unreachable")) throw error;
    const advice = `whether the budget of run '${run}' was extended is unknown; compare its limit before you repeat the option${done}`;
    throw new MgrpoError(error.code, `${error.message}; ${advice}`, { cause: error, retryable: error.retryable });
  });
  if (applied || item?.["extension"] === id) return;
  throw new MgrpoError("config-invalid", `run '${run}' has just been changed by another process: try again${done}`);
}
