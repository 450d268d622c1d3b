/**
 * @file Halting a run for what it asks of others. One that has finished training may still have evaluations to make: it is halted then, too,
 * and the tick of the run that goes on finds its last step closed and finishes it again.
 */
import type { Table, TableResult } from "../ports.ts";
import { endRun, haltFinished } from "./writes.ts";

/** The RUN afterwards. `applied`: this call halted it. */
export async function haltRun(table: Pick<Table, "update">, run: string, reason: string): Promise<TableResult> {
  const ended = await table.update(endRun(run, "halted", reason));
  return ended.item?.["status"] === "finished" ? table.update(haltFinished(run, reason)) : ended;
}
