/**
 * @file What the runs of a trial were charged, and the law on tools: their bill is the price of the requests that they sent. A request is
 * charged before it is sent, so a process that ends in between leaves a charge without a request. Nothing else does: whatever happens to
 * requests to the store, a charge counts once.
 */
import type { Table } from "../../core/ports.ts";
import { MICRO_PER_USD, readApiSpending } from "../../core/training/api-spending.ts";
import type { RunResult, Trial } from "./history.ts";
import { PAGE_USD } from "./world.ts";

export async function readBills(
  table: Pick<Table, "get" | "query">,
  run: string,
): Promise<Pick<RunResult, "judgesMicroUsd" | "toolsMicroUsd" | "agentsMicroUsd">> {
  const { judgesUsd, toolsUsd, agentsUsd } = await readApiSpending(table, run);
  return {
    judgesMicroUsd: Math.round(judgesUsd * MICRO_PER_USD),
    toolsMicroUsd: Math.round(toolsUsd * MICRO_PER_USD),
    agentsMicroUsd: Math.round(agentsUsd * MICRO_PER_USD),
  };
}

const PAGE_MICRO_USD = PAGE_USD * MICRO_PER_USD;

/** Requests that a process may have charged and not sent when it ends. They are few, since it charges one at a time. */
const UNSENT_AT_END = 4;

export function toolBillErrors({ runs, history, starts }: Trial): string[] {
  return runs.flatMap(({ run, toolsMicroUsd: billed }) => {
    const callers = [`searcher-${run}`, `eval-${run}`];
    const sent = history.filter(({ process, path }) => path.startsWith("/page") && callers.includes(process)).length;
    const ends = callers.reduce((sum, name) => sum + (starts[name] ?? 1) - 1, 0);
    const [least, most] = [sent * PAGE_MICRO_USD, (sent + ends * UNSENT_AT_END) * PAGE_MICRO_USD];
    if (least <= billed && billed <= most) return [];
    return [`run ${run}: ${sent} requests for ${least} micro-dollars, billed ${billed}, ${ends} ends of processes`];
  });
}
