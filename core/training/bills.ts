/**
 * @file What a run pays for beside its workers: the requests of its tools (tool-budget.ts) and the verdicts of its judges, where
 * `judge.usdPerMillionTokens` gives them a price. Both count for `budget.usd`, each by a record of its own that whoever pays adds to.
 */
import { tableKeys } from "../contracts/keys.ts";
import { parse } from "../contracts/parse.ts";
import { JudgeSpendingRecord, type RunRecord, ToolSpendingRecord } from "../contracts/records.ts";
import type { Table, TableChange } from "../ports.ts";

export const MICRO = 1_000_000;

/** Dollars. */
export interface Bills {
  readonly toolsUsd: number;
  readonly judgesUsd: number;
}

export const NO_BILLS: Bills = { toolsUsd: 0, judgesUsd: 0 };

export async function readBills(table: Pick<Table, "get">, run: string): Promise<Bills> {
  const keys = [tableKeys.toolSpending(run), tableKeys.judgeSpending(run)];
  const [tools, judges] = await Promise.all(keys.map((key) => table.get(key)));
  return {
    toolsUsd: tools ? parse(ToolSpendingRecord, tools, `TOOLS of run '${run}'`).microUsd / MICRO : 0,
    judgesUsd: judges ? parse(JudgeSpendingRecord, judges, `JUDGES of run '${run}'`).microUsd / MICRO : 0,
  };
}

/** What counts for the run's limit: nothing needs to be read where it has none. */
export async function limitedBills(table: Pick<Table, "get">, { run, maxUsd }: RunRecord): Promise<Bills> {
  return maxUsd === null ? NO_BILLS : readBills(table, run);
}

/** Counts a verdict that was paid for, whether or not another one of the same trajectory was first. */
export async function payJudge(table: Pick<Table, "insert" | "update">, run: string, usd: number): Promise<void> {
  const microUsd = Math.round(usd * MICRO);
  if (microUsd === 0 || (await table.update(addVerdict(run, microUsd))).applied) return;
  // The first of its run.
  const none: JudgeSpendingRecord = { run, verdicts: 0, microUsd: 0 };
  await table.insert(tableKeys.judgeSpending(run), none);
  await table.update(addVerdict(run, microUsd));
}

/** As `spendOnTools`, a repeat counts twice: once more than was spent, never less. */
function addVerdict(run: string, microUsd: number): TableChange {
  return {
    key: tableKeys.judgeSpending(run),
    add: [
      [["verdicts"], 1],
      [["microUsd"], microUsd],
    ],
    when: [],
  };
}
