/**
 * @file What the tools of a run may request from paid backends, across all workers. A request is counted before it is made, so no worker
 * passes the limit. Then the run is halted, and `resume --extend-tool-calls` or `--extend-tool-usd` lets it continue.
 */

import { tableKeys } from "../contracts/keys.ts";
import type { ToolSpendingRecord } from "../contracts/spending.ts";
import { MgrpoError } from "../errors.ts";
import type { TableChange } from "../ports.ts";
import { MICRO } from "./bills.ts";
import type { BudgetExtension } from "./run-budget.ts";

export type ToolLimits = Pick<ToolSpendingRecord, "maxCalls" | "maxUsd">;
export type ToolSpending = Pick<ToolSpendingRecord, "calls" | "microUsd" | "blocked">;

/**
 * Adds to what was spent. Spending (here and in bills.ts) is the only kind of write that counts twice when it is repeated. If the store's
 * response is lost, the total is too high, never too low.
 */
export function addToolSpending(run: string, { calls, microUsd, blocked }: ToolSpending): TableChange {
  return {
    key: tableKeys.toolSpending(run),
    add: [
      [["calls"], calls],
      [["microUsd"], microUsd],
      [["blocked"], blocked],
    ],
    when: [],
  };
}

/** Which limit is exceeded, and how to continue. Undefined while there is budget left. */
export function overToolBudgetReason({ calls, microUsd, maxCalls, maxUsd }: ToolSpendingRecord): string | undefined {
  if (maxCalls !== null && calls > maxCalls) {
    return `its tools' budget is spent: ${maxCalls} calls of backends; allow more with --extend-tool-calls <calls>`;
  }
  if (maxUsd !== null && microUsd > maxUsd * MICRO) {
    return `its tools' budget is spent: $${maxUsd} for backends (${calls} calls); allow more with --extend-tool-usd <dollars>`;
  }
  return undefined;
}

/**
 * Raises limits by the extension, from the limit or from what is already spent, the larger one. A repeat finds other limits, and its own
 * id in `extension`. Refused if there is no limit.
 */
export function extendToolBudget(
  spent: ToolSpendingRecord,
  { toolCalls, toolUsd }: BudgetExtension,
  extension: string,
): TableChange {
  const raise = (name: keyof ToolLimits, used: number, more: number | undefined, setting: string) => {
    const limit = spent[name];
    if (more === undefined) return [];
    if (limit !== null) return [{ name, limit, raised: Math.max(limit, used) + more }];
    throw new MgrpoError("config-invalid", `run '${spent.run}' has no ${setting} to extend: leave the option out`);
  };
  const limits = [
    ...raise("maxCalls", spent.calls, toolCalls, "tools.budget.run.calls"),
    ...raise("maxUsd", spent.microUsd / MICRO, toolUsd, "tools.budget.run.usd"),
  ];
  return {
    key: tableKeys.toolSpending(spent.run),
    set: [[["extension"], extension], ...limits.map(({ name, raised }) => [[name], raised] as const)],
    when: limits.map(({ name, limit }) => ({ equals: [[name], limit] })),
  };
}
