/** @file The costs of a run besides its workers: what is charged before and after a request, in micro-dollars, in a table in memory. */
import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { itemBytes } from "../../../adapters/aws/item-bytes.ts";
import { tableKeys, tablePrefixes } from "../../../core/contracts/keys.ts";
import { AgentSpendingRecord } from "../../../core/contracts/spending.ts";
import type { Table } from "../../../core/ports.ts";
import {
  agentPayments,
  JudgeCharge,
  NO_API_SPENDING,
  readApiSpending,
  readApiSpendingIfLimited,
} from "../../../core/training/api-spending.ts";
import { judgeSpendingOf } from "../../fakes/judge-spending.ts";
import { memoryTable } from "../../fakes/memory-store.ts";
import { repeatingTable, replayingTable } from "../../fakes/repeating-table.ts";
import { runRecord } from "../../fakes/scripted-team.ts";

const judgesOf = (table: Table) => judgeSpendingOf(table, "r");
const judges = (verdicts: number, microUsd: number, reserved: Record<string, number> = {}) => ({
  run: "r",
  verdicts,
  microUsd,
  reserved,
});
const claimOf = (name: string) => ({ name, claimedAt: 0, heldUntil: 100 });

describe("the charge of a judge's request", () => {
  test("the maximum cost is reserved first, rounded up; settling replaces it with the actual cost and counts the verdict", async () => {
    const table = memoryTable();
    const charge = new JudgeCharge(table, "r", claimOf("ask"));
    await charge.reserve(0.0100001);
    expect(await judgesOf(table)).toEqual(judges(0, 10_001, { "ask-0": 100 }));
    await charge.settle(1, 0.004);
    expect(await judgesOf(table)).toEqual(judges(1, 4000));
    // After settling, the same charge has nothing reserved.
    await charge.settle(1, 0.002);
    expect(await judgesOf(table)).toEqual(judges(2, 6000));
  });

  test("the record is the shard of the claim's name: the sum of its character codes modulo 16", async () => {
    const table = memoryTable();
    // "q" has the code 113.
    await new JudgeCharge(table, "r", claimOf("q")).reserve(0.001);
    expect(await table.get(tableKeys.judgeSpending("r", 1))).toMatchObject({ microUsd: 1000 });
  });

  test("after settling nothing is reserved: the call is refused and writes nothing", async () => {
    const table = memoryTable();
    let updates = 0;
    const counting: Table = { ...table, update: (change) => table.update(change).finally(() => updates++) };
    const charge = new JudgeCharge(counting, "r", claimOf("ask"));
    await charge.settle(1, 0.002);
    const before = updates;
    await expect(charge.reserve(0.001)).rejects.toMatchObject({
      code: "canceled",
      message: "the call has settled, so nothing is reserved for it",
    });
    expect([updates, await judgesOf(table)]).toEqual([before, judges(1, 2000)]);
  });

  test("votes are reserved one by one, and settled together", async () => {
    const table = memoryTable();
    const charge = new JudgeCharge(table, "r", claimOf("ask"));
    for (const usd of [0.001, 0.002]) await charge.reserve(usd);
    expect(await judgesOf(table)).toEqual(judges(0, 3000, { "ask-0": 100, "ask-1": 100 }));
    await charge.settle(1, 0.003);
    expect(await judgesOf(table)).toEqual(judges(1, 3000));
  });

  test("concurrent reservations are all charged, and all replaced by the actual cost", async () => {
    const table = memoryTable();
    const charge = new JudgeCharge(table, "r", claimOf("ask"));
    await Promise.all([charge.reserve(0.02), charge.reserve(0.1)]);
    expect(await judgesOf(table)).toEqual(judges(0, 120_000, { "ask-0": 100, "ask-1": 100 }));
    await charge.settle(1, 0.05);
    expect(await judgesOf(table)).toEqual(judges(1, 50_000));
  });

  test("a request that was cut off costs what was reserved; one that failed for free costs nothing", async () => {
    const table = memoryTable();
    const cutOff = new JudgeCharge(table, "r", claimOf("ask"));
    await cutOff.reserve(0.005);
    await cutOff.settle(0, "unknown");
    expect(await judgesOf(table)).toEqual(judges(0, 5000));
    const failed = new JudgeCharge(table, "r", claimOf("again"));
    await failed.reserve(0.005);
    await failed.settle(0, 0);
    expect(await judgesOf(table)).toEqual(judges(0, 5000));
  });

  test("what costs nothing is not recorded", async () => {
    const table = memoryTable();
    const charge = new JudgeCharge(table, "r", claimOf("ask"));
    for (const usd of [0, -1, Number.NaN]) await charge.reserve(usd);
    await charge.settle(1, 0);
    expect(await judgesOf(table)).toBeUndefined();
  });
});

describe("a judge's charge, when responses of the store are lost, callers race and callers die", () => {
  test("a write that is sent again because its response was lost changes nothing", async () => {
    const table = memoryTable();
    const twice: Table = {
      ...table,
      async update(change) {
        await table.update(change);
        return table.update(change);
      },
    };
    const charge = new JudgeCharge(twice, "r", claimOf("ask"));
    await charge.reserve(0.007);
    expect(await judgesOf(table)).toEqual(judges(0, 7000, { "ask-0": 100 }));
    await charge.settle(1, 0.002);
    expect(await judgesOf(table)).toEqual(judges(1, 2000));
  });

  test("the first reservations of a run are all charged, even if concurrent", async () => {
    const table = memoryTable();
    // A caller that loses the race to create the record reads the winner's.
    const racing: Table = {
      ...table,
      async update(change) {
        const { applied, item } = await table.update(change);
        await new Promise((resolve) => setTimeout(resolve, 1));
        return { applied, item: item ?? (await table.get(change.key)) };
      },
    };
    // The codes 97, 113 and 65 are 1 modulo 16: all three are in one record.
    const charges = ["a", "q", "A"].map((ask) => new JudgeCharge(racing, "r", claimOf(ask)));
    await Promise.all(charges.map((charge) => charge.reserve(0.001)));
    expect(await table.query("RUN#r", tablePrefixes.judgeSpending)).toHaveLength(1);
    expect(await judgesOf(table)).toMatchObject({ microUsd: 3000 });
  });

  test("a dead caller's reservation stays charged", async () => {
    const table = memoryTable();
    await new JudgeCharge(table, "r", claimOf("ask")).reserve(0.007);
    const next = new JudgeCharge(table, "r", claimOf("again"));
    await next.settle(1, 0.001);
    expect(await judgesOf(table)).toEqual(judges(1, 8000, { "ask-0": 100 }));
  });
});

test("640 requests under way at once are spread over sixteen records, and all their updates cost less than 3,000 write units", async () => {
  const table = memoryTable();
  let units = 0;
  const metered: Table = {
    ...table,
    async update(change) {
      const result = await table.update(change);
      units += Math.ceil(itemBytes({ ...change.key, ...result.item }) / 1024);
      return result;
    },
  };
  const charges = Array.from({ length: 640 }, () => new JudgeCharge(metered, "r", claimOf(randomUUID())));
  for (const charge of charges) await charge.reserve(0.01);
  expect(await table.query("RUN#r", tablePrefixes.judgeSpending)).toHaveLength(16);
  for (const charge of charges) await charge.settle(1, 0.002);
  expect(await judgesOf(table)).toEqual(judges(640, 1_280_000));
  expect(units).toBeLessThan(3000);
});

describe("reservations of dead callers", () => {
  test("after 10,000 killed requests few names are kept besides the open ones, and the charge is the sum of all", async () => {
    const table = memoryTable();
    // One request per ms; each is held for 5 ms, so that 5 are open at any time.
    for (let now = 1; now <= 10_000; now++) {
      await new JudgeCharge(table, "r", { name: `ask${now}`, claimedAt: now, heldUntil: now + 5 }).reserve(0.001);
      // At most five in each of the sixteen records: a reservation drops the dead names of its record.
      if (now % 500 === 0) expect(Object.keys((await judgesOf(table))?.reserved ?? {}).length).toBeLessThan(100);
    }
    const open = [9996, 9997, 9998, 9999, 10_000].map((now) => [`ask${now}-0`, now + 5]);
    expect(await judgesOf(table)).toMatchObject(judges(0, 10_000_000, Object.fromEntries(open)));
  });

  test("a caller that was only slow cannot settle once its name is gone: the maximum stays charged", async () => {
    const table = memoryTable();
    // The names have the same letters, so both are in one record.
    const slow = new JudgeCharge(table, "r", { name: "slow", claimedAt: 0, heldUntil: 100 });
    await slow.reserve(0.007);
    const next = new JudgeCharge(table, "r", { name: "wols", claimedAt: 100, heldUntil: 200 });
    await next.reserve(0.001);
    expect(await judgesOf(table)).toEqual(judges(0, 8000, { "wols-0": 200 }));
    await slow.settle(1, 0.002);
    expect(await judgesOf(table)).toEqual(judges(0, 8000, { "wols-0": 200 }));
    await next.settle(1, 0.0005);
    expect(await judgesOf(table)).toEqual(judges(1, 7500));
  });

  test("the names of many callers that died at once are dropped by the next requests, each write within the store's limits", async () => {
    const table = memoryTable();
    const dead = Object.fromEntries(Array.from({ length: 4000 }, (_, i) => [`dead${i}-0`, 50]));
    // "p" is in shard 0: its code is 112.
    await table.insert(tableKeys.judgeSpending("r", 0), judges(0, 4_000_000, dead));
    for (let now = 100; now < 140; now++) {
      const charge = new JudgeCharge(table, "r", { name: "p", claimedAt: now, heldUntil: now + 100 });
      await charge.reserve(0.001);
      await charge.settle(1, 0.001);
    }
    expect(await judgesOf(table)).toEqual(judges(40, 4_040_000));
  });
});

test("a turn of an agent behind an API is counted with its cost, at least a micro-dollar; a free one is not", async () => {
  const table = memoryTable();
  const pay = agentPayments(table, "r");
  await pay(0);
  expect(await table.get(tableKeys.agentSpending("r"))).toBeUndefined();
  await pay(0.0000004);
  await pay(0.0000016);
  await pay(0.5);
  expect(await table.get(tableKeys.agentSpending("r"))).toMatchObject({ run: "r", turns: 3, microUsd: 500_003 });
});

test.each([repeatingTable, replayingTable])(
  "a turn whose payment is sent again is counted once: %o",
  async (resending) => {
    const table = memoryTable();
    const workers = [1, 2].map(() => agentPayments(resending(table), "r"));
    await Promise.all([0.001, 0.002, 0.004].flatMap((usd) => workers.map((pay) => pay(usd))));
    const spent = AgentSpendingRecord.parse(await table.get(tableKeys.agentSpending("r")));
    expect(spent).toMatchObject({ turns: 6, microUsd: 14_000 });
  },
);

test("a run's spending is read for each kind, in dollars; kinds without a record are 0", async () => {
  const table = memoryTable();
  expect(await readApiSpending(table, "r")).toEqual({ toolsUsd: 0, judgesUsd: 0, agentsUsd: 0 });
  await agentPayments(table, "r")(0.25);
  await new JudgeCharge(table, "r", claimOf("ask")).reserve(1.5);
  const tools = { run: "r", calls: 3, blocked: 0, microUsd: 2_000_000, maxCalls: null, maxUsd: null };
  await table.insert(tableKeys.toolSpending("r"), tools);
  expect(await readApiSpending(table, "r")).toEqual({ toolsUsd: 2, judgesUsd: 1.5, agentsUsd: 0.25 });
});

test("without a dollar limit nothing is read", async () => {
  const fail = () => Promise.reject(new Error("read"));
  const never = { get: fail, query: fail };
  expect(await readApiSpendingIfLimited(never, runRecord({ maxUsd: null }))).toBe(NO_API_SPENDING);
  await expect(readApiSpendingIfLimited(never, runRecord({ maxUsd: 1 }))).rejects.toThrow("read");
  expect(NO_API_SPENDING).toEqual({ toolsUsd: 0, judgesUsd: 0, agentsUsd: 0 });
});

test.each([
  ["toolSpending", "TOOLS of run 'r'"],
  ["judgeSpending", "JUDGES of run 'r'"],
  ["agentSpending", "AGENTS of run 'r'"],
] as const)("a damaged record is named: %s", async (kind, name) => {
  const table = memoryTable();
  await table.insert(tableKeys[kind]("r", 3), { run: "r" });
  await expect(readApiSpending(table, "r")).rejects.toThrow(name);
});
