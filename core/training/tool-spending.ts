/**
 * @file What the tools of a run may ask of paid backends, all workers together. A request is counted before it is made, so no worker passes
 * the limit; then the run is halted, and `resume --extend-tool-calls` or `--extend-tool-usd` lets it go on.
 */
import { tableKeys } from "../contracts/keys.ts";
import type { ToolSpendingRecord } from "../contracts/records.ts";
import { MgrpoError } from "../errors.ts";
import type { TableChange } from "../ports.ts";
import { MICRO } from "./bills.ts";
import type { Extension } from "./budget.ts";

export type ToolLimits = Pick<ToolSpendingRecord, "maxCalls" | "maxUsd">;
export type ToolSpending = Pick<ToolSpendingRecord, "calls" | "microUsd" | "blocked">;

/**
 * Adds to what was spent. The one write of the program that a repeat makes twice: a store's lost answer is then counted once more than it
 * was spent, never less.
 */
export function spendOnTools(run: string, { calls, microUsd, blocked }: ToolSpending): TableChange {
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

/** Which limit is passed, and how to go on; undefined while there is something left. */
export function toolsOverspent({ calls, microUsd, maxCalls, maxUsd }: ToolSpendingRecord): string | undefined {
  if (maxCalls !== null && calls > maxCalls) {
    return `its tools' budget is spent: ${maxCalls} calls of backends; allow more with --extend-tool-calls <calls>`;
  }
  if (maxUsd !== null && microUsd > maxUsd * MICRO) {
    return `its tools' budget is spent: $${maxUsd} for backends (${calls} calls); allow more with --extend-tool-usd <dollars>`;
  }
  return undefined;
}

/**
 * Raises limits by so much from where they are, or from what is spent if that is more. A repeat finds other limits. Refused where there is
 * no limit.
 */
export function extendToolBudget(spent: ToolSpendingRecord, { toolCalls, toolUsd }: Extension): TableChange {
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
    set: limits.map(({ name, raised }) => [[name], raised]),
    when: limits.map(({ name, limit }) => ({ equals: [[name], limit] })),
  };
}
