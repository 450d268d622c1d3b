/** @file Resumes a run that is in its store: with a larger budget if the user extends it, never past a spent one. */
import type { RunConfig } from "../../core/contracts/config.ts";
import { tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { parse } from "../../core/contracts/parse.ts";
import { FleetRecord, type RunRecord, ToolSpendingRecord, WorkerRecord } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Store, TableResult } from "../../core/ports.ts";
import { readBills } from "../../core/training/bills.ts";
import { type Extension, extended, extendsAny, overspent, spending } from "../../core/training/budget.ts";
import { extendToolBudget, toolsOverspent } from "../../core/training/tool-spending.ts";
import { extendBudget, forgiveFleet, resumeRun } from "../../core/training/writes.ts";

export async function resumeInStore(
  { table, clock }: Pick<Store, "table" | "clock">,
  config: RunConfig,
  record: RunRecord,
  extension: Extension,
): Promise<void> {
  const { run, status } = record;
  const items = await table.query(tableKeys.run(run).pk, tablePrefixes.workers);
  const workers = items.map((item) => parse(WorkerRecord, item, `WORKER of run '${run}'`));
  const spent = spending(config, record, workers, await readBills(table, run), await clock.storeTime());
  const fleets = (await table.query(tableKeys.run(run).pk, tablePrefixes.fleets)).map((item) =>
    parse(FleetRecord, item, `FLEET of run '${run}'`),
  );
  for (const known of fleets) if (status === "halted") await table.update(forgiveFleet(known));
  if (extendsAny(extension) && status === "finished") {
    throw new MgrpoError("config-invalid", `run '${run}' is finished: there is nothing to extend`);
  }
  if (status === "finished") return;
  const toolItem = await table.get(tableKeys.toolSpending(run));
  const tools = toolItem && parse(ToolSpendingRecord, toolItem, `TOOLS of run '${run}'`);
  const { toolCalls, toolUsd } = extension;
  const extendsTools = toolCalls !== undefined || toolUsd !== undefined;
  if (extendsTools) {
    if (!tools) throw new MgrpoError("config-invalid", `run '${run}' has no tools that count: leave the option out`);
    await written(run, table.update(extendToolBudget(tools, extension)));
  }
  if (extension.hours !== undefined || extension.usd !== undefined) {
    return written(run, table.update(extendBudget(record, extended(record, spent, extension))));
  }
  const reason = overspent(record, spent) ?? (tools && !extendsTools ? toolsOverspent(tools) : undefined);
  if (reason !== undefined) throw new MgrpoError("run-halted", `run '${run}' does not go on: ${reason}`);
  if (status === "halted") await table.update(resumeRun(run));
}

async function written(run: string, update: Promise<TableResult>): Promise<void> {
  if ((await update).applied) return;
  throw new MgrpoError("config-invalid", `run '${run}' was changed by somebody else just now: look again, then resume`);
}
