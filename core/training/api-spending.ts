/**
 * @file The costs of a run besides its workers: tool requests (tool-spending.ts), judge verdicts at `judge.usdPerMillionTokens`, and turns of
 * agents behind APIs at `endpoint.usdPerMillionTokens`. Each kind has its own record, and all count toward `budget.usd`.
 */

import { tableKeys } from "../contracts/keys.ts";
import { parse } from "../contracts/parse.ts";
import type { RunRecord } from "../contracts/records.ts";
import { AgentSpendingRecord, JudgeSpendingRecord, ToolSpendingRecord } from "../contracts/spending.ts";
import type { Table, TableChange, TableItem } from "../ports.ts";
import { NumberedPayments } from "./numbered-payments.ts";

/** Micro-dollars in a dollar. */
export const MICRO = 1_000_000;

/** In dollars. */
export interface ApiSpending {
  readonly toolsUsd: number;
  readonly judgesUsd: number;
  /** Cost of agents behind APIs. */
  readonly agentsUsd: number;
}

export const NO_API_SPENDING: ApiSpending = { toolsUsd: 0, judgesUsd: 0, agentsUsd: 0 };

export async function readApiSpending(table: Pick<Table, "get">, run: string): Promise<ApiSpending> {
  const keys = [tableKeys.toolSpending(run), tableKeys.judgeSpending(run), tableKeys.agentSpending(run)];
  const [tools, judges, agents] = await Promise.all(keys.map((key) => table.get(key)));
  return {
    toolsUsd: tools ? parse(ToolSpendingRecord, tools, `TOOLS of run '${run}'`).microUsd / MICRO : 0,
    judgesUsd: judges ? parse(JudgeSpendingRecord, judges, `JUDGES of run '${run}'`).microUsd / MICRO : 0,
    agentsUsd: agents ? parse(AgentSpendingRecord, agents, `AGENTS of run '${run}'`).microUsd / MICRO : 0,
  };
}

/** The spending if the run has a dollar limit. Without one: zeros, and nothing is read. */
export async function readApiSpendingIfLimited(
  table: Pick<Table, "get">,
  { run, maxUsd }: RunRecord,
): Promise<ApiSpending> {
  return maxUsd === null ? NO_API_SPENDING : readApiSpending(table, run);
}

type Payments = Pick<Table, "insert" | "update">;

/** One request to a judge, by its claim (verdict-claim.ts). Times are the store's, in ms. */
export interface JudgeAsk {
  /** Unique among all requests of the run. */
  readonly name: string;
  readonly claimedAt: number;
  /** From then on its asker counts as dead. */
  readonly heldUntil: number;
}

/** Names that one write drops. Every request drops as many, and adds fewer. */
const DROPPED_AT_ONCE = 100;

/**
 * What one request to a judge is charged. Its maximum cost is booked before the request, and the actual cost replaces it afterward. A caller
 * that dies leaves the maximum cost charged. Each reservation has a name in the record while it is open, so that a write that is
 * repeated because its answer was lost changes nothing: a settlement may lower the charge, and twice would be too low. A settlement without
 * a reservation only raises it, and a repeat counts twice: too high, never too low.
 *
 * Names of dead callers are dropped by the next request of the run, whatever it judges, so the record does not grow with deaths. A caller
 * that was only slow finds its name gone: its settlement is refused, and the maximum stays charged.
 */
export class JudgeCharge {
  readonly #table: Payments;
  readonly #run: string;
  readonly #ask: JudgeAsk;
  /** Name -> micro-dollars. */
  readonly #reserved = new Map<string, number>();
  #reservations = 0;

  constructor(table: Payments, run: string, ask: JudgeAsk) {
    this.#table = table;
    this.#run = run;
    this.#ask = ask;
  }

  /** Many may be under way at once. */
  async reserve(usd: number): Promise<void> {
    const microUsd = Math.ceil(usd * MICRO);
    if (!(microUsd > 0)) return;
    const name = `${this.#ask.name}-${this.#reservations++}`;
    const record = await this.#change({
      add: [[["microUsd"], microUsd]],
      set: [[["reserved", name], Math.ceil(this.#ask.heldUntil)]],
      when: [{ absent: ["reserved", name] }],
    });
    this.#reserved.set(name, microUsd);
    await this.#dropDead(record);
  }

  /** `usd`: the cost, even if there is no verdict. "unknown": a request that was cut off costs the reserved amount. */
  async settle(verdicts: 0 | 1, usd: number | "unknown"): Promise<void> {
    const names = [...this.#reserved.keys()];
    const reserved = [...this.#reserved.values()].reduce((sum, one) => sum + one, 0);
    const microUsd = usd === "unknown" ? reserved : Math.round(usd * MICRO);
    if (microUsd === 0 && reserved === 0) return;
    await this.#change({
      add: [
        [["verdicts"], verdicts],
        [["microUsd"], microUsd - reserved],
      ],
      remove: names.map((name) => ["reserved", name]),
      when: names.map((name) => ({ exists: ["reserved", name] })),
    });
    this.#reserved.clear();
  }

  /** Returns the record after the change. The second attempt is for the first payment of a run, which creates the record. */
  async #change(change: Omit<TableChange, "key">): Promise<TableItem | undefined> {
    const update: TableChange = { key: tableKeys.judgeSpending(this.#run), ...change };
    const { applied, item } = await this.#table.update(update);
    if (applied) return item;
    const none: JudgeSpendingRecord = { run: this.#run, verdicts: 0, microUsd: 0, reserved: {} };
    await this.#table.insert(update.key, none);
    // Not applied again: an earlier attempt, whose answer was lost, has made the change. A third would find what the second found.
    return (await this.#table.update(update)).item;
  }

  async #dropDead(record: TableItem | undefined): Promise<void> {
    const open = Object.entries(record?.["reserved"] ?? {});
    const dead = open.filter(([, heldUntil]) => Number(heldUntil) <= this.#ask.claimedAt).slice(0, DROPPED_AT_ONCE);
    if (dead.length === 0) return;
    const remove = dead.map(([name]) => ["reserved", name]);
    await this.#table.update({ key: tableKeys.judgeSpending(this.#run), remove, when: [] });
  }
}

/** What one process pays for turns of an agent behind an API. Call it with the cost of each turn in dollars. */
export function agentPayments(table: Payments, run: string): (usd: number) => Promise<void> {
  const none = { run, turns: 0, microUsd: 0 } satisfies AgentSpendingRecord;
  const payments = new NumberedPayments(table, tableKeys.agentSpending(run), none);
  return async (usd) => {
    const microUsd = Math.round(usd * MICRO);
    if (microUsd !== 0) await payments.add({ turns: 1, microUsd });
  };
}
