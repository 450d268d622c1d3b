/**
 * @file Halts a run whose workers cannot continue: a service refuses their requests, or a tool budget is spent. A run that has finished
 * training may still have evaluations to run, so it is halted too. After `resume`, tick finds its last step closed and finishes it again.
 */
import type { Table, TableResult } from "../ports.ts";
import { endRun, haltFinished } from "./writes.ts";

/** Returns the resulting RUN record. `applied`: this call halted the run. */
export async function haltRun(table: Pick<Table, "update">, run: string, reason: string): Promise<TableResult> {
  const ended = await table.update(endRun(run, "halted", reason));
  return ended.item?.["status"] === "finished" ? table.update(haltFinished(run, reason)) : ended;
}
