/** @file The claim on a verdict, record by record: who may ask and until when, pauses that double, and streaks of failures. */
import { expect, test } from "vitest";
import { type TableKey, tableKeys } from "../../../core/contracts/keys.ts";
import type { VerdictRecord } from "../../../core/contracts/verdict-record.ts";
import {
  claimVerdict,
  readOrInsertVerdict,
  recordVerdictFailure,
  releaseVerdict,
} from "../../../core/training/verdict-claim.ts";
import { memoryStore } from "../../fakes/memory-store.ts";
import { repeatingTable } from "../../fakes/repeating-table.ts";
import { sha } from "../../fakes/scripted-team.ts";

const NOW = 1_000_500;
const DAY = 86_400;
const address = { run: "r", subject: sha("subject"), judge: "paid" };
const key = tableKeys.verdict("r", address.subject, "paid");

function world() {
  const store = memoryStore();
  let now = NOW;
  store.clock.storeTime = async () => now;
  const claim = async (token: string, seconds = 60) => claimVerdict(store, address, seconds, token);
  return {
    store,
    claim,
    advance(seconds: number) {
      now += seconds * 1000;
    },
    /** A claim that is expected to succeed. */
    async claimed(token: string, seconds = 60): Promise<VerdictRecord> {
      return (await claim(token, seconds)) ?? expect.fail(`'${token}' did not get the claim`);
    },
    fail: (record: VerdictRecord, failure: Partial<{ isUnusable: boolean; queueSeconds: number }> = {}) =>
      recordVerdictFailure(store, record, { isUnusable: false, queueSeconds: 0, ...failure }),
    stored: () => store.table.get(key),
  };
}

const first: VerdictRecord = {
  ...{ ...address, asks: 1, token: "a", heldUntil: NOW + 60_000, failures: 0, unusable: 0 },
  // 1000.5 seconds, rounded up, and seven days.
  ...{ failingSince: 0, failedAt: 0, expiresAt: 1001 + 7 * DAY },
};

test("the first claim returns the record as it is stored", async () => {
  const { claim, stored } = world();
  expect(await claim("a")).toEqual(first);
  expect(await stored()).toEqual(first);
});

test("a claim is held until it expires, to the millisecond", async () => {
  const { claimed, claim, advance } = world();
  await claimed("a");
  expect(await claim("b")).toBeUndefined();
  advance(59.999);
  expect(await claim("b")).toBeUndefined();
  advance(0.001);
  const second = { ...first, asks: 2, token: "b", heldUntil: NOW + 60_000 + 30_000, expiresAt: 1061 + 7 * DAY };
  expect(await claim("b", 30)).toEqual(second);
});

test("after the store's clock was set back, a claim holds for no longer than if it had been made then", async () => {
  const { claimed, claim, advance, fail } = world();
  await claimed("a");
  advance(-60);
  expect(await claim("b")).toBeUndefined();
  advance(-3600);
  await fail(await claimed("b"));
  advance(-3600);
  expect(await claim("c")).toMatchObject({ asks: 3 });
});

test("a caller whose time is behind reads the time again, with the record, and claims from then on", async () => {
  const { store, claimed, claim, advance } = world();
  await claimed("a");
  const { storeTime } = store.clock;
  let reads = 0;
  store.clock.storeTime = async () => (await storeTime()) - (reads++ % 2 === 0 ? 3_600_000 : 0);
  expect(await claim("b")).toBeUndefined();
  advance(60);
  expect(await claim("b")).toMatchObject({ heldUntil: NOW + 120_000, expiresAt: 1061 + 7 * DAY });
});

test("a caller that repeats its claim gets it again, unchanged", async () => {
  const { claim, advance } = world();
  await claim("a");
  advance(5);
  expect(await claim("a")).toEqual(first);
});

test("of two callers that claim an expired claim at once, one gets it", async () => {
  const { claimed, claim, advance } = world();
  await claimed("a");
  advance(60);
  const [one, two] = await Promise.all([claim("b"), claim("c")]);
  expect([one, two].filter(Boolean)).toHaveLength(1);
  expect((one ?? two)?.asks).toBe(2);
});

test("a claim whose response was lost still belongs to its caller, though the repeated write is refused", async () => {
  const { store, claimed, claim, advance } = world();
  await claimed("a");
  advance(60);
  store.table.update = repeatingTable({ ...store.table }).update;
  expect(await claim("b")).toMatchObject({ token: "b", asks: 2 });
});

test("nobody gets the claim if its record disappears in the meantime", async () => {
  const { store, claim } = world();
  store.table.insert = async () => false;
  expect(await claim("a")).toBeUndefined();
  const gone = world();
  await gone.claimed("a");
  gone.advance(60);
  gone.store.table.update = async () => ({ applied: false, item: undefined });
  expect(await gone.claim("b")).toBeUndefined();
});

test("releasing a claim frees it at once, but not a later claim on the same verdict", async () => {
  const { store, claimed, claim, stored } = world();
  const mine = await claimed("a");
  await releaseVerdict(store, mine);
  expect(await stored()).toEqual({ ...first, heldUntil: 0 });
  expect(await claim("b")).toMatchObject({ token: "b", asks: 2 });
  await releaseVerdict(store, mine);
  expect(await stored()).toMatchObject({ token: "b", heldUntil: NOW + 60_000 });
});

test("a failure is recorded with its time, and nobody may ask again within a second", async () => {
  const { claimed, fail, stored, advance } = world();
  const mine = await claimed("a");
  advance(3);
  const at = NOW + 3000;
  const failed = { ...first, failures: 1, unusable: 0, failingSince: at, failedAt: at, heldUntil: at + 1000 };
  expect(await fail(mine)).toEqual(failed);
  expect(await stored()).toEqual(failed);
});

test("pauses double with every failure in a row, to at most a minute", async () => {
  const { claimed, fail, advance, claim } = world();
  const pauses: number[] = [];
  for (let i = 0; i < 9; i++) {
    const mine = await claimed(`ask ${i}`);
    const { heldUntil, failedAt, failures, failingSince } = await fail(mine);
    expect(failures).toBe(i + 1);
    expect(failingSince).toBe(NOW);
    pauses.push((heldUntil - failedAt) / 1000);
    advance(pauses[i] ?? 0);
  }
  expect(pauses).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60]);
  expect(await claim("next")).toBeDefined();
});

test.each([
  ["a failure 900 seconds after the last continues its streak", 900, 0, 2],
  ["a failure later than that begins a new streak", 900.001, 0, 1],
  ["time in a queue is added to the 900 seconds", 930, 30, 2],
  ["a failure later than both together begins a new streak", 930.001, 30, 1],
])("%s", async (_what, seconds, queueSeconds, failures) => {
  const { claimed, fail, advance } = world();
  await fail(await claimed("a"));
  advance(seconds);
  const failed = await fail(await claimed("b"), { queueSeconds });
  expect(failed.failures).toBe(failures);
  const now = NOW + seconds * 1000;
  expect(failed.failingSince).toBe(failures === 2 ? NOW : now);
  expect(failed.failedAt).toBe(now);
});

test("the count of unusable answers outlasts a streak; other failures do not raise it", async () => {
  const { claimed, fail, advance } = world();
  expect((await fail(await claimed("a"), { isUnusable: true })).unusable).toBe(1);
  advance(1);
  expect((await fail(await claimed("b"))).unusable).toBe(1);
  advance(2000);
  const last = await fail(await claimed("c"), { isUnusable: true });
  expect([last.unusable, last.failures]).toEqual([2, 1]);
});

test("a failure reported after the claim was lost changes nothing", async () => {
  const { claimed, fail, advance, stored } = world();
  const slow = await claimed("a");
  advance(60);
  await claimed("b");
  await fail(slow);
  expect(await stored()).toMatchObject({ token: "b", failures: 0, heldUntil: NOW + 120_000 });
});

test("the record of free rewards is created once, with no claim on it, and read as it is afterward", async () => {
  const { store, fail, advance } = world();
  const free = { ...address, judge: "program" };
  const made = await readOrInsertVerdict(store, free);
  const { token: _, ...unclaimed } = first;
  expect(made).toEqual({ ...unclaimed, judge: "program", heldUntil: NOW });
  expect(await store.table.get(tableKeys.verdict("r", address.subject, "program"))).toEqual(made);
  const failed = await fail(made);
  advance(9);
  expect(await readOrInsertVerdict(store, free)).toEqual(failed);
});

test("a damaged record is refused with an error that names its run", async () => {
  const { store, claim } = world();
  const damaged: [TableKey, Record<string, string>] = [key, { run: "r", subject: address.subject }];
  await store.table.insert(...damaged);
  await expect(claim("a")).rejects.toMatchObject({
    code: "record-damaged",
    message: expect.stringMatching(/^VERDICT of run 'r': /),
  });
});
