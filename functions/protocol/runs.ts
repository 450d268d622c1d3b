/** @file The clock's round: a thorough tick of every run in the store's list. One run's trouble does not keep the others waiting. */
import { z } from "zod";
import { tableKeys } from "../../core/contracts/keys.ts";
import { RunName } from "../../core/contracts/names.ts";
import { parse } from "../../core/contracts/parse.ts";
import type { Context } from "../context.ts";
import type { Tick } from "./ticking.ts";

const Listed = z.strictObject({ run: RunName });

/** Rejects with the first failure, after all runs had their turn. */
export async function tickAll({ table, records }: Context, tick: Tick): Promise<void> {
  const items = await table.query(tableKeys.listed("").pk, "RUN#");
  const failures: unknown[] = [];
  for (const item of items) {
    const { run } = parse(Listed, item, "list of runs");
    // A start that was cut short has listed its run but not founded it.
    if (!(await records.run(run))) continue;
    await tick(run, true).catch((error: unknown) => failures.push(error));
  }
  if (failures.length > 0) throw failures[0];
}
