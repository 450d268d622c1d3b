/**
 * @file Halts a run: by hand, after a refusal (`refusalOf`), or because its tools' budget is spent. A run that has finished training may
 * still have evaluations to run, so it is halted too. After `resume`, tick finds that the last step is closed, and marks the run as finished
 * again.
 */
import type { Halt } from "../contracts/halt.ts";
import type { MgrpoError } from "../errors.ts";
import type { Table, TableResult } from "../ports.ts";
import { endRun, haltFinished } from "./writes.ts";

/** Returns the resulting RUN record. `applied`: this call halted the run. */
export async function haltRun(table: Pick<Table, "update">, run: string, halt: Halt): Promise<TableResult> {
  const ended = await table.update(endRun(run, halt));
  return ended.item?.["status"] === "finished" ? table.update(haltFinished(run, halt)) : ended;
}

/** The halt after a refusal (`refusalOf`). */
export function haltOf({ code, message: reason }: MgrpoError): Halt {
  return { code: code === "judge-failed" ? "judge-outage" : "refused", reason };
}
