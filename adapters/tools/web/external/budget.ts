/**
 * @file Budgets for calls to backends, in calls and dollars.
 *
 *     a rollout's   counts its agents' requests at their price, cached or not, so that a repeated run behaves the same. All its conversations
 *                   share it (core/conversation/tool-budget.ts). Once it is spent, tool responses say so: the agent's failure, not an outage.
 *     the run's     counts the calls of all workers to backends (core/training/tool-spending.ts), each once (numbered-payments.ts). A call
 *                   beyond it is counted but not sent, and halts the run.
 */

import { tableKeys } from "../../../../core/contracts/keys.ts";
import { parse } from "../../../../core/contracts/parse.ts";
import type { Allowance } from "../../../../core/contracts/rollout.ts";
import { ToolSpendingRecord } from "../../../../core/contracts/spending.ts";
import { MgrpoError } from "../../../../core/errors.ts";
import type { Table } from "../../../../core/ports.ts";
import { MICRO_PER_USD } from "../../../../core/training/api-spending.ts";
import { haltRun } from "../../../../core/training/halt-run.ts";
import { NumberedPayments } from "../../../../core/training/numbered-payments.ts";
import { overToolBudgetReason, type ToolSpending } from "../../../../core/training/tool-spending.ts";
import type { WebSettings } from "../settings.ts";

/** Undefined if there is no limit. */
export function allowanceOf({ calls, usd }: WebSettings["budget"]["rollout"]): Allowance | undefined {
  if (calls === null && usd === null) return undefined;
  return { calls, microUsd: usd === null ? null : Math.round(usd * MICRO_PER_USD) };
}

export interface RunBudget {
  /**
   * Counts a request before it is sent, and reserves what it may cost beyond its price, so that concurrent requests cannot pass the limit
   * together. If that exceeds the budget, halts the run and rejects with `run-halted`: the request stays counted, but nothing is reserved.
   */
  charge(usd: number, reservedUsd?: number): Promise<void>;
  /**
   * Replaces a reservation with what the request cost beyond its price. Never halts the run: the request is paid for, so its answer is kept.
   * The reservation of a process that was killed stays.
   */
  settle(reservedUsd: number, usd: number): Promise<void>;
  /** Counts a cost that nothing was reserved for. Like `charge`, halts the run and rejects if that exceeds the budget. */
  chargeMore(usd: number): Promise<void>;
  /** Counts pages or results that the leakage guard withheld. */
  countBlocked(count: number): Promise<void>;
}

export async function openRunBudget(
  run: string,
  limits: WebSettings["budget"]["run"],
  table: Table,
): Promise<RunBudget> {
  const unspent = {
    run,
    calls: 0,
    microUsd: 0,
    blocked: 0,
    maxCalls: limits.calls,
    maxUsd: limits.usd,
  } satisfies ToolSpendingRecord;
  const key = tableKeys.toolSpending(run);
  await table.insert(key, unspent);
  const payments = new NumberedPayments(table, key, unspent);

  async function spend(part: Partial<ToolSpending>, reservedMicroUsd = 0): Promise<void> {
    const spent = parse(ToolSpendingRecord, await payments.add(part), `TOOLS of run '${run}'`);
    const reason = overToolBudgetReason(spent);
    if (reason === undefined) return;
    if (reservedMicroUsd > 0) await payments.add({ microUsd: -reservedMicroUsd });
    await haltRun(table, run, { code: "budget", reason });
    throw new MgrpoError("run-halted", `run '${run}' is halted: ${reason}`);
  }

  const microUsd = (usd: number) => Math.round(usd * MICRO_PER_USD);
  return {
    charge: (usd, reservedUsd = 0) => {
      const reserved = microUsd(reservedUsd);
      return spend({ calls: 1, microUsd: microUsd(usd) + reserved }, reserved);
    },
    settle: async (reservedUsd, usd) => {
      const change = microUsd(usd) - microUsd(reservedUsd);
      if (change !== 0) await payments.add({ microUsd: change });
    },
    chargeMore: (usd) => spend({ microUsd: microUsd(usd) }),
    countBlocked: (blocked) => spend({ blocked }),
  };
}
