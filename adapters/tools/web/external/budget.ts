/**
 * @file Budgets for calls to backends, in calls and dollars.
 *
 *     a rollout's   counts the requests of its agents at their price, cached or not, so a repeated run behaves the same. One budget for all its
 *                   conversations (core/conversation/tool-budget.ts). When it is spent, tools say so in their responses: the agent's failure, not an outage.
 *     the run's     counts the calls that reach backends, by all workers together (core/training/tool-spending.ts). When it is spent, the run
 *                   halts.
 */

import { tableKeys } from "../../../../core/contracts/keys.ts";
import { parse } from "../../../../core/contracts/parse.ts";
import type { Allowance } from "../../../../core/contracts/rollout.ts";
import { ToolSpendingRecord } from "../../../../core/contracts/spending.ts";
import { MgrpoError } from "../../../../core/errors.ts";
import type { Table } from "../../../../core/ports.ts";
import { MICRO } from "../../../../core/training/api-spending.ts";
import { haltRun } from "../../../../core/training/halt-run.ts";
import { addToolSpending, overToolBudgetReason, type ToolSpending } from "../../../../core/training/tool-spending.ts";
import type { WebSettings } from "../settings.ts";

/** Undefined if there is no limit. */
export function allowanceOf({ calls, usd }: WebSettings["budget"]["rollout"]): Allowance | undefined {
  if (calls === null && usd === null) return undefined;
  return { calls, microUsd: usd === null ? null : Math.round(usd * MICRO) };
}

export interface RunBudget {
  /**
   * Counts a request before it is sent. Halts the run and rejects with `run-halted` if the budget is exceeded, or has no room for what the
   * request is expected to cost beyond its price.
   */
  charge(usd: number, expectedUsd?: number): Promise<void>;
  /** Counts what a request cost beyond its price, once that is known. */
  chargeMore(usd: number): Promise<void>;
  /** Counts pages or results that the leakage guard withheld. */
  countBlocked(count: number): Promise<void>;
}

export async function openRunBudget(
  run: string,
  limits: WebSettings["budget"]["run"],
  table: Table,
): Promise<RunBudget> {
  const unspent: ToolSpendingRecord = {
    run,
    calls: 0,
    microUsd: 0,
    blocked: 0,
    maxCalls: limits.calls,
    maxUsd: limits.usd,
  };
  await table.insert(tableKeys.toolSpending(run), unspent);

  async function spend(part: Partial<ToolSpending>, expectedMicroUsd = 0): Promise<void> {
    const { item } = await table.update(addToolSpending(run, { calls: 0, microUsd: 0, blocked: 0, ...part }));
    const spent = parse(ToolSpendingRecord, item, `TOOLS of run '${run}'`);
    const reason = overToolBudgetReason({ ...spent, microUsd: spent.microUsd + expectedMicroUsd });
    if (reason === undefined) return;
    await haltRun(table, run, reason);
    throw new MgrpoError("run-halted", `run '${run}' is halted: ${reason}`);
  }

  const microUsd = (usd: number) => Math.round(usd * MICRO);
  return {
    charge: (usd, expectedUsd = 0) => spend({ calls: 1, microUsd: microUsd(usd) }, microUsd(expectedUsd)),
    chargeMore: (usd) => spend({ microUsd: microUsd(usd) }),
    countBlocked: (blocked) => spend({ blocked }),
  };
}
