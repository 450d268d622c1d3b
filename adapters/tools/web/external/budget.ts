/**
 * @file What may be asked of backends, in calls and dollars.
 *
 *     a rollout's   counts what its agents ask for, at its price, from the cache or not: the same whoever asked before, so a repeated run says
 *                   the same. One budget for all its conversations (core/conversation/tool-budget.ts). Spent, the agent is told; that is its
 *                   own doing.
 *     the run's     counts what backends were really asked, by all workers together (core/training/tool-spending.ts). Spent, the run is
 *                   halted.
 */
import { tableKeys } from "../../../../core/contracts/keys.ts";
import { parse } from "../../../../core/contracts/parse.ts";
import { ToolSpendingRecord } from "../../../../core/contracts/records.ts";
import type { Allowance } from "../../../../core/contracts/rollout.ts";
import { MgrpoError } from "../../../../core/errors.ts";
import type { Table } from "../../../../core/ports.ts";
import { MICRO } from "../../../../core/training/bills.ts";
import { haltRun } from "../../../../core/training/halt.ts";
import { spendOnTools, type ToolSpending, toolsOverspent } from "../../../../core/training/tool-spending.ts";
import type { WebSettings } from "../settings.ts";

/** Undefined where nothing is limited. */
export function allowanceOf({ calls, usd }: WebSettings["budget"]["rollout"]): Allowance | undefined {
  if (calls === null && usd === null) return undefined;
  return { calls, microUsd: usd === null ? null : Math.round(usd * MICRO) };
}

export interface RunBudget {
  /** Before a request: counts it. Rejects with `run-halted`, the run being halted, when it is one too many. */
  charge(usd: number): Promise<void>;
  /** After a request whose price was not known before. */
  chargeMore(usd: number): Promise<void>;
  /** Counts pages or results kept from an agent. */
  countBlocked(count: number): Promise<void>;
}

export async function openRunBudget(
  run: string,
  limits: WebSettings["budget"]["run"],
  table: Table,
): Promise<RunBudget> {
  const unspent: ToolSpendingRecord = {
    ...{ run, calls: 0, microUsd: 0, blocked: 0 },
    ...{ maxCalls: limits.calls, maxUsd: limits.usd },
  };
  await table.insert(tableKeys.toolSpending(run), unspent);

  async function spend(part: Partial<ToolSpending>): Promise<void> {
    const { item } = await table.update(spendOnTools(run, { calls: 0, microUsd: 0, blocked: 0, ...part }));
    const reason = toolsOverspent(parse(ToolSpendingRecord, item, `TOOLS of run '${run}'`));
    if (reason === undefined) return;
    await haltRun(table, run, reason);
    throw new MgrpoError("run-halted", `run '${run}' is halted: ${reason}`);
  }

  const microUsd = (usd: number) => Math.round(usd * MICRO);
  return {
    charge: (usd) => spend({ calls: 1, microUsd: microUsd(usd) }),
    chargeMore: (usd) => spend({ microUsd: microUsd(usd) }),
    countBlocked: (blocked) => spend({ blocked }),
  };
}
