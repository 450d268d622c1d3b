/**
 * @file The limits on what a run's tools request from backends, across all workers. Free requests count too. A request is counted before it
 * is made, with the cost that is reserved for it. One that would exceed a limit is not made: it halts the run, and
 * `resume --budget-tool-calls` or `--budget-tool-usd` lets the run continue.
 */
import { tableKeys } from "../contracts/keys.ts";
import type { ToolSpendingRecord } from "../contracts/spending.ts";
import type { TableChange } from "../ports.ts";
import { MICRO_PER_USD } from "./api-spending.ts";
import { type RaisedBudget, raisedLimit } from "./run-budget.ts";

export type ToolSpending = Pick<ToolSpendingRecord, "calls" | "microUsd" | "blocked">;

/** Which limit is exceeded, and how to continue. Undefined: none is. */
export function overToolBudgetReason({ calls, microUsd, maxCalls, maxUsd }: ToolSpendingRecord): string | undefined {
  if (maxCalls !== null && calls > maxCalls) {
    return `its tools' budget is spent: ${countOfCalls(maxCalls)} to backends; allow more with --budget-tool-calls <calls in all>, or in a new run with a higher tools.budget.run.calls`;
  }
  // Rounded, since 2.01 * 1,000,000 is below 2,010,000.
  if (maxUsd !== null && microUsd > Math.round(maxUsd * MICRO_PER_USD)) {
    return `its tools' budget is spent: $${maxUsd} for backends (${countOfCalls(calls)}); allow more with --budget-tool-usd <dollars in all>, or in a new run with a higher tools.budget.run.usd`;
  }
  return undefined;
}

const countOfCalls = (n: number) => `${n} ${n === 1 ? "call" : "calls"}`;

/** Raises limits to those of `resume --budget-tool-…`. Refused: see `raisedLimit`. */
export function raiseToolBudget(spent: ToolSpendingRecord, { toolCalls, toolUsd }: RaisedBudget): TableChange {
  const { run, calls, microUsd, maxCalls, maxUsd } = spent;
  const raised = {
    maxCalls: raisedLimit(run, "tools.budget.run.calls", { limit: maxCalls, used: calls, raised: toolCalls }),
    maxUsd: raisedLimit(run, "tools.budget.run.usd", {
      limit: maxUsd,
      used: microUsd / MICRO_PER_USD,
      raised: toolUsd,
    }),
  };
  const known = (["maxCalls", "maxUsd"] as const).filter((name) => spent[name] !== null);
  return {
    key: tableKeys.toolSpending(run),
    set: known.map((name) => [[name], raised[name]] as const),
    when: known.map((name) => ({ equals: [[name], spent[name]] })),
  };
}
