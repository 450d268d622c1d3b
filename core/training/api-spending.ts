/**
 * @file The costs of a run besides its workers: tool requests (tool-spending.ts), judge verdicts at `judge.usdPerMillionTokens`, and turns of
 * agents behind APIs at `endpoint.usdPerMillionTokens`. Each kind has its own records, and all count toward `budget.usd`.
 */
import { type TableKey, tableKeys, tablePrefixes } from "../contracts/keys.ts";
import { parse } from "../contracts/parse.ts";
import type { RunRecord } from "../contracts/records.ts";
import { AgentSpendingRecord, JudgeSpendingRecord, ToolSpendingRecord } from "../contracts/spending.ts";
import { MgrpoError } from "../errors.ts";
import type { Table, TableChange, TableItem } from "../ports.ts";
import { NumberedPayments } from "./numbered-payments.ts";

/** Micro-dollars in a dollar. */
export const MICRO_PER_USD = 1_000_000;

/** In dollars. */
export interface ApiSpending {
  readonly toolsUsd: number;
  readonly judgesUsd: number;
  /** Cost of agents behind APIs. */
  readonly agentsUsd: number;
}

export const NO_API_SPENDING: ApiSpending = { toolsUsd: 0, judgesUsd: 0, agentsUsd: 0 };

export async function readApiSpending(table: Pick<Table, "get" | "query">, run: string): Promise<ApiSpending> {
  const [tools, agents, judges] = await Promise.all([
    table.get(tableKeys.toolSpending(run)),
    table.get(tableKeys.agentSpending(run)),
    table.query(tableKeys.run(run).pk, tablePrefixes.judgeSpending),
  ]);
  const judgesMicroUsd = judges
    .map((shard) => parse(JudgeSpendingRecord, shard, `JUDGES of run '${run}'`).microUsd)
    .reduce((sum, microUsd) => sum + microUsd, 0);
  return {
    toolsUsd: tools ? parse(ToolSpendingRecord, tools, `TOOLS of run '${run}'`).microUsd / MICRO_PER_USD : 0,
    judgesUsd: judgesMicroUsd / MICRO_PER_USD,
    agentsUsd: agents ? parse(AgentSpendingRecord, agents, `AGENTS of run '${run}'`).microUsd / MICRO_PER_USD : 0,
  };
}

/** The spending of a run with a dollar limit. Reads nothing and returns zeros for a run without one. */
export async function readApiSpendingIfLimited(
  table: Pick<Table, "get" | "query">,
  { run, maxUsd }: RunRecord,
): Promise<ApiSpending> {
  return maxUsd === null ? NO_API_SPENDING : readApiSpending(table, run);
}

type PaymentTable = Pick<Table, "insert" | "update">;

/** The claim under which a judge is asked for a verdict (verdict-claim.ts). Times are the store's, in ms. */
export interface VerdictClaim {
  /** Unique in the run. */
  readonly name: string;
  readonly claimedAt: number;
  /** From then on its caller counts as dead. */
  readonly heldUntil: number;
}

/**
 * Number of JUDGES records over which the charges of a run are spread. A write costs as much as its whole record, which grows with the
 * requests under way: 640 at once take about 17,500 write units in one record, and 1,800 in sixteen.
 */
const JUDGE_SHARDS = 16;

/** The shard of a claim. Each claim stays in one, so its reservations and their settlement are in the same record. */
const shardOf = (name: string): number =>
  [...name].reduce((sum, character) => sum + character.charCodeAt(0), 0) % JUDGE_SHARDS;

/** Maximum number of names that one write removes. Each reservation adds only one, so the record stays bounded. */
const DROPPED_AT_ONCE = 100;

/**
 * What the run is charged for one request for a verdict. Its maximum cost is reserved beforehand, in one or more parts, and the actual cost
 * replaces it afterward. A caller that dies leaves the maximum cost charged. Each reservation has a name in the record while it is open, so
 * that a write that is repeated because its response was lost changes nothing: a settlement may lower the charge, and lowering it twice would
 * undercharge. A settlement without a reservation only raises the charge, and a repeat counts twice: too high, never too low. After the
 * settlement nothing more is reserved: nobody would settle it.
 *
 * Names of dead callers are dropped by the next reservation of their shard, whatever is judged, so no record grows with deaths. A caller
 * that was only slow finds its name gone: its settlement is refused, and the maximum stays charged.
 */
export class JudgeCharge {
  readonly #table: PaymentTable;
  readonly #run: string;
  readonly #key: TableKey;
  readonly #claim: VerdictClaim;
  /** Name -> micro-dollars. */
  readonly #reserved = new Map<string, number>();
  #reservations = 0;
  #isSettled = false;

  constructor(table: PaymentTable, run: string, claim: VerdictClaim) {
    this.#table = table;
    this.#run = run;
    this.#key = tableKeys.judgeSpending(run, shardOf(claim.name));
    this.#claim = claim;
  }

  /** Calls may run concurrently. Rejects once settled; a reservation that was being written is undone first. */
  async reserve(usd: number): Promise<void> {
    if (this.#isSettled) throw settled();
    const microUsd = Math.ceil(usd * MICRO_PER_USD);
    if (!(microUsd > 0)) return;
    const name = `${this.#claim.name}-${this.#reservations++}`;
    const record = await this.#change({
      add: [[["microUsd"], microUsd]],
      set: [[["reserved", name], Math.ceil(this.#claim.heldUntil)]],
      when: [{ absent: ["reserved", name] }],
    });
    if (this.#isSettled) {
      await this.#replace(new Map([[name, microUsd]]), 0, 0);
      throw settled();
    }
    this.#reserved.set(name, microUsd);
    await this.#dropDead(record);
  }

  /** `usd`: the cost, charged even if there is no verdict. "unknown", as for a request that was cut off: the reserved amount is charged. */
  async settle(verdicts: 0 | 1, usd: number | "unknown"): Promise<void> {
    this.#isSettled = true;
    const reserved = sumOf(this.#reserved);
    const microUsd = usd === "unknown" ? reserved : Math.round(usd * MICRO_PER_USD);
    if (microUsd === 0 && reserved === 0) return;
    await this.#replace(this.#reserved, verdicts, microUsd);
    this.#reserved.clear();
  }

  /** Charges `microUsd` instead of the reservations. */
  async #replace(reserved: ReadonlyMap<string, number>, verdicts: 0 | 1, microUsd: number): Promise<void> {
    const names = [...reserved.keys()];
    await this.#change({
      add: [
        [["verdicts"], verdicts],
        [["microUsd"], microUsd - sumOf(reserved)],
      ],
      remove: names.map((name) => ["reserved", name]),
      when: names.map((name) => ({ exists: ["reserved", name] })),
    });
  }

  /** Returns the record after the change. A shard's first change finds no record: it creates one and tries again. */
  async #change(change: Omit<TableChange, "key">): Promise<TableItem | undefined> {
    const update: TableChange = { key: this.#key, ...change };
    const { applied, item } = await this.#table.update(update);
    if (applied) return item;
    const none: JudgeSpendingRecord = { run: this.#run, verdicts: 0, microUsd: 0, reserved: {} };
    await this.#table.insert(update.key, none);
    // If this is not applied either, an earlier attempt, whose response was lost, made the change, or the name was dropped.
    // A third update would not help.
    return (await this.#table.update(update)).item;
  }

  async #dropDead(record: TableItem | undefined): Promise<void> {
    const open = Object.entries(record?.["reserved"] ?? {});
    const dead = open.filter(([, heldUntil]) => Number(heldUntil) <= this.#claim.claimedAt).slice(0, DROPPED_AT_ONCE);
    if (dead.length === 0) return;
    const remove = dead.map(([name]) => ["reserved", name]);
    await this.#table.update({ key: this.#key, remove, when: [] });
  }
}

const sumOf = (reserved: ReadonlyMap<string, number>): number =>
  [...reserved.values()].reduce((sum, one) => sum + one, 0);

const settled = (): MgrpoError => new MgrpoError("canceled", "the call has settled, so nothing is reserved for it");

/**
 * Records what one process pays for turns of an agent behind an API. Call the result with the cost of each turn in dollars. One that is not
 * free costs at least a micro-dollar: many cheap turns add up.
 */
export function agentPayments(table: PaymentTable, run: string): (usd: number) => Promise<void> {
  const none = { run, turns: 0, microUsd: 0 } satisfies AgentSpendingRecord;
  const payments = new NumberedPayments(table, tableKeys.agentSpending(run), none);
  return async (usd) => {
    if (usd > 0) await payments.add({ turns: 1, microUsd: Math.max(1, Math.round(usd * MICRO_PER_USD)) });
  };
}
