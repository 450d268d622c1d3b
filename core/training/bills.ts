/**
 * @file What a run pays for besides its workers: requests of its tools (tool-spending.ts), verdicts of its judges at
 * `judge.usdPerMillionTokens`, and turns of agents behind APIs at `endpoint.usdPerMillionTokens`. Each has a record of its own that
 * any payer adds to, and all count towards `budget.usd`.
 */
import { tableKeys } from "../contracts/keys.ts";
import { parse } from "../contracts/parse.ts";
import { AgentSpendingRecord, JudgeSpendingRecord, type RunRecord, ToolSpendingRecord } from "../contracts/records.ts";
import type { Table, TableChange, TableItem } from "../ports.ts";

/** Micro-dollars in a dollar. */
export const MICRO = 1_000_000;

/** In dollars. */
export interface Bills {
  readonly toolsUsd: number;
  readonly judgesUsd: number;
  /** Of agents behind APIs. */
  readonly agentsUsd: number;
}

export const NO_BILLS: Bills = { toolsUsd: 0, judgesUsd: 0, agentsUsd: 0 };

export async function readBills(table: Pick<Table, "get">, run: string): Promise<Bills> {
  const keys = [tableKeys.toolSpending(run), tableKeys.judgeSpending(run), tableKeys.agentSpending(run)];
  const [tools, judges, agents] = await Promise.all(keys.map((key) => table.get(key)));
  return {
    toolsUsd: tools ? parse(ToolSpendingRecord, tools, `TOOLS of run '${run}'`).microUsd / MICRO : 0,
    judgesUsd: judges ? parse(JudgeSpendingRecord, judges, `JUDGES of run '${run}'`).microUsd / MICRO : 0,
    agentsUsd: agents ? parse(AgentSpendingRecord, agents, `AGENTS of run '${run}'`).microUsd / MICRO : 0,
  };
}

/** What counts towards the run's limit. A run without a limit needs no reads. */
export async function limitedBills(table: Pick<Table, "get">, { run, maxUsd }: RunRecord): Promise<Bills> {
  return maxUsd === null ? NO_BILLS : readBills(table, run);
}

type Payments = Pick<Table, "insert" | "update">;

/** Counts what a judge was paid, even if it gave no verdict, or another verdict on the same trajectory came first. */
export async function payJudge(table: Payments, run: string, verdicts: 0 | 1, usd: number): Promise<void> {
  const none: JudgeSpendingRecord = { run, verdicts: 0, microUsd: 0 };
  await pay(table, tableKeys.judgeSpending(run), none, [[["verdicts"], verdicts]], usd);
}

/** Counts a turn of an agent behind an API. */
export async function payAgent(table: Payments, run: string, usd: number): Promise<void> {
  const none: AgentSpendingRecord = { run, turns: 0, microUsd: 0 };
  await pay(table, tableKeys.agentSpending(run), none, [[["turns"], 1]], usd);
}

/** Like `addToolSpending`, a repeat counts twice: the total may be too high, never too low. */
async function pay(
  table: Payments,
  key: TableChange["key"],
  none: TableItem,
  counts: NonNullable<TableChange["add"]>,
  usd: number,
): Promise<void> {
  const microUsd = Math.round(usd * MICRO);
  const add: TableChange = { key, add: [...counts, [["microUsd"], microUsd]], when: [] };
  if (microUsd === 0 || (await table.update(add)).applied) return;
  // The run's first payment creates the record.
  await table.insert(key, none);
  await table.update(add);
}
