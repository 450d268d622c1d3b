/**
 * @file What may be asked. Two limits, each in calls and dollars:
 *
 *     a conversation's   counts what its agent asks for, at its price, from the cache or not: the same whoever asked before, so a repeated run
 *                        says the same. Spent, the agent is told; that is its own doing. Whole teams are bounded with it: a rollout has
 *                        one conversation of the main agent and one per delegation.
 *     the run's          counts what backends were really asked, by all workers together (core/training/tool-budget.ts). Spent, the
 *                        run is halted.
 */
import { tableKeys } from "../../../../core/contracts/keys.ts";
import { parse } from "../../../../core/contracts/parse.ts";
import { ToolSpendingRecord } from "../../../../core/contracts/records.ts";
import { MgrpoError } from "../../../../core/errors.ts";
import type { Table } from "../../../../core/ports.ts";
import { MICRO } from "../../../../core/training/bills.ts";
import { spendOnTools, type ToolSpending, toolsOverspent } from "../../../../core/training/tool-budget.ts";
import { endRun } from "../../../../core/training/writes.ts";
import type { WebSettings } from "../settings.ts";

export interface ConversationBudget {
  /** Counts a call; what to tell the agent when there is nothing left for it. To be called in the order of the text. */
  take(conversation: object, usd: number): string | undefined;
  /** Counts what a call turned out to cost beside its price. */
  add(conversation: object, usd: number): void;
}

export function conversationBudget({ calls, usd }: WebSettings["budget"]["conversation"]): ConversationBudget {
  const spent = new WeakMap<object, { calls: number; usd: number }>();
  const of = (conversation: object) => {
    const known = spent.get(conversation) ?? { calls: 0, usd: 0 };
    spent.set(conversation, known);
    return known;
  };
  return {
    take(conversation, price) {
      const known = of(conversation);
      if (calls !== null && known.calls >= calls) return `no calls are left: ${calls} were allowed`;
      if (usd !== null && known.usd + price > usd) return `no budget is left for this call: $${usd} were allowed`;
      known.calls += 1;
      known.usd += price;
      return undefined;
    },
    add(conversation, price) {
      of(conversation).usd += price;
    },
  };
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
    await table.update(endRun(run, "halted", reason));
    throw new MgrpoError("run-halted", `run '${run}' is halted: ${reason}`);
  }

  const microUsd = (usd: number) => Math.round(usd * MICRO);
  return {
    charge: (usd) => spend({ calls: 1, microUsd: microUsd(usd) }),
    chargeMore: (usd) => spend({ microUsd: microUsd(usd) }),
    countBlocked: (blocked) => spend({ blocked }),
  };
}
