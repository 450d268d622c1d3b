/** @file Asking for a verdict: who is asked, who pays, and what a failure says. The test moves the clock by hand. */
import { expect, test } from "vitest";
import type { Judgment } from "../../../core/contracts/judge.ts";
import { objectKeys, type TableKey, tableKeys } from "../../../core/contracts/keys.ts";
import { MgrpoError as Failure } from "../../../core/errors.ts";
import type { VerdictContext } from "../../../core/ports.ts";
import { cost, failed, runUntilWaiting, SECONDS, subject, world } from "./verdict-world.ts";

test.each(["insert", "update"] as const)(
  "a claim whose %s is repeated after a lost response still belongs to its caller",
  async (write) => {
    const { store, ask, advance } = world();
    if (write === "update") {
      await failed(ask({ ask: () => Promise.reject(new Error("down")) }));
      advance(SECONDS);
    }
    const { insert, update } = store.table;
    const isClaim = ({ pk }: TableKey) => pk === tableKeys.verdict("test", subject, "paid").pk;
    let repeated = 0;
    store.table.insert = async (key, item) => {
      if (write === "insert" && isClaim(key) && repeated++ === 0) await insert(key, item);
      return insert(key, item);
    };
    store.table.update = async (change) => {
      if (write === "update" && isClaim(change.key) && repeated++ === 0) await update(change);
      return update(change);
    };
    expect(await ask()).toEqual({ score: 1 });
    expect(repeated).toBe(1);
  },
);

test("rewards that cost nothing are asked each time, and leave no record", async () => {
  const { ask, claim } = world();
  let asked = 0;
  const program = () => ask({ judge: undefined, ask: () => [0.25, 0.5][asked++] ?? 1 });
  expect([await program(), await program()]).toEqual([{ score: 0.25 }, { score: 0.5 }]);
  expect([await claim("program"), await claim("")]).toEqual([undefined, undefined]);
});

test("free rewards that fail are recorded under `program`, with how long and how often", async () => {
  const { ask, claim, advance } = world();
  const broken = () => failed(ask({ judge: undefined, ask: () => Promise.reject(new Error("disk")) }));
  const first = await broken();
  expect(first).toMatchObject({ code: "judge-failed", retryable: true, message: "the judge failed: disk" });
  expect(first.evidence).toEqual({ fault: "outage", unusable: 0, failingSeconds: 0 });
  advance(90);
  const second = await broken();
  expect(second.evidence).toEqual({ fault: "outage", unusable: 0, failingSeconds: 90 });
  expect((second.cause as Error).message).toBe("disk");
  expect(await claim("program")).toMatchObject({ failures: 2 });
});

test("an error in the recipe's rewards passes through unchanged, and does not count as a failure of the judge", async () => {
  const { ask, claim } = world();
  const fault = new Failure("rewards-invalid", "no such field");
  for (const judge of [undefined, "paid"]) {
    expect(await failed(ask({ judge, ask: () => Promise.reject(fault) }))).toBe(fault);
  }
  expect(await claim("program")).toBeUndefined();
  // A paid judge's claim is released: anyone may ask at once.
  expect(await claim()).toMatchObject({ heldUntil: 0, failures: 0 });
});

test("a judge's verdict that cannot be used is billed but not stored, and the next process asks again at once", async () => {
  const { ask, stored, claim, bill } = world();
  const fault = new Failure("rewards-invalid", "no turns");
  const check = () => {
    throw fault;
  };
  expect(await failed(ask({ ask: () => ({ score: 1, cost: cost(0.5) }), check }))).toBe(fault);
  expect(await stored()).toBeUndefined();
  expect(await claim()).toMatchObject({ heldUntil: 0 });
  expect(await bill()).toMatchObject({ verdicts: 0, microUsd: 500_000 });
  expect(await ask({ ask: () => ({ score: 1, turns: [1] }), check: () => {} })).toEqual({ score: 1, turns: [1] });
});

test("a score too small to be recorded is 0", async () => {
  const { ask } = world();
  expect(await ask({ judge: undefined, ask: () => Math.exp(-400) })).toEqual({ score: 0 });
  expect(await ask({ judge: undefined, ask: () => 1e-99 })).toEqual({ score: 1e-99 });
});

test("a stored verdict is returned, and no judge is asked", async () => {
  const { ask, stored, bill } = world();
  const verdict = { score: 0.75, votes: [{ score: 0.75, reason: "near" }], cost: cost(0.5) };
  expect(await ask({ ask: () => verdict })).toEqual(verdict);
  expect(await stored()).toBeDefined();
  expect(await ask({ ask: () => expect.fail("asked") })).toEqual(verdict);
  expect(await bill()).toEqual({ run: "test", verdicts: 1, microUsd: 500_000, reserved: {} });
});

test("while one process asks, another gets no verdict yet; a claim outlives the deadline by 31 s", async () => {
  const { ask, claim, advance } = world();
  let answer = (_judgment: Judgment) => {};
  const slow = ask({ ask: () => new Promise<Judgment>((resolve) => (answer = resolve)) });
  await runUntilWaiting();
  expect(await claim()).toMatchObject({ heldUntil: 1_000_000 + (SECONDS + 31) * 1000, asks: 1 });
  expect(await ask({ ask: () => expect.fail("asked") })).toBeUndefined();
  advance(SECONDS + 31);
  // The first caller counts as dead. Both verdicts are paid for, and the first committed one counts.
  expect(await ask({ ask: () => 0.5 })).toEqual({ score: 0.5 });
  answer(1);
  expect(await slow).toEqual({ score: 0.5 });
});

test("the next caller finds the verdict of one that died after committing it", async () => {
  const { store, ask, advance } = world();
  const hanging = ask({ ask: () => new Promise<Judgment>(() => {}) });
  hanging.catch(() => {});
  await runUntilWaiting();
  advance(SECONDS + 31);
  const key = objectKeys.verdict("test", subject, "paid");
  // Committed between this caller's first read and its claim.
  let looks = 0;
  const get = store.objects.get;
  store.objects.get = async (at) => (at === key && looks++ === 0 ? undefined : get(at));
  await store.objects.commit(key, new TextEncoder().encode('{"score":0.25}'));
  expect(await ask({ ask: () => expect.fail("asked") })).toEqual({ score: 0.25 });
});

test("with a signal that is already aborted, no verdict is claimed and no judge is asked; free rewards are cut off at once", async () => {
  const { ask, claim } = world();
  const signal = AbortSignal.abort();
  expect(await ask({ signal, ask: () => expect.fail("asked") })).toBeUndefined();
  expect(await claim()).toBeUndefined();
  // Free rewards have no claim: they are asked, then cut off.
  const canceled = await failed(ask({ judge: undefined, signal, ask: () => new Promise(() => {}) }));
  expect(canceled).toMatchObject({ code: "canceled", retryable: true, message: "the verdict was canceled" });
});

test("at the deadline, the judge is aborted and has one second to return what it has; if it returns nothing, the request costs what was reserved", async () => {
  const { ask, bill, sleeps, endSleep } = world();
  let context: VerdictContext | undefined;
  const asked = failed(
    ask({
      async ask(given) {
        context = given;
        await given.reserve(0.5);
        return new Promise(() => {});
      },
    }),
  );
  await runUntilWaiting();
  expect(sleeps.map(({ seconds }) => seconds)).toEqual([SECONDS]);
  expect(await bill()).toMatchObject({ verdicts: 0, microUsd: 500_000 });
  expect(context?.signal.aborted).toBe(false);
  await endSleep();
  expect(context?.signal.aborted).toBe(true);
  expect(sleeps.map(({ seconds }) => seconds)).toEqual([SECONDS, 1]);
  await endSleep();
  const error = await asked;
  expect(error).toMatchObject({ code: "judge-failed", retryable: true });
  expect(error.message).toBe("no verdict within 60 s (limits.verdictSeconds) on a conversation about question 'q7'");
  expect(error.evidence).toEqual({ fault: "outage", unusable: 0, failingSeconds: 0 });
  expect(await bill()).toMatchObject({ verdicts: 0, microUsd: 500_000 });
});

test("a verdict that the judge returns when the deadline aborts it still counts", async () => {
  const { ask, endSleep, bill } = world();
  const asked = ask({
    ask: ({ signal }) =>
      new Promise((resolve) => signal.addEventListener("abort", () => resolve({ score: 1, cost: cost(0.1) }))),
  });
  await runUntilWaiting();
  await endSleep();
  expect(await asked).toEqual({ score: 1, cost: cost(0.1) });
  expect(await bill()).toMatchObject({ verdicts: 1, microUsd: 100_000 });
});

test("the caller's signal cancels a request under way, which releases the claim", async () => {
  const { ask, claim, endSleep } = world();
  const stop = new AbortController();
  const asked = failed(ask({ signal: stop.signal, ask: () => new Promise(() => {}) }));
  await runUntilWaiting();
  stop.abort();
  await endSleep();
  expect(await asked).toMatchObject({ code: "canceled", retryable: true });
  expect(await claim()).toMatchObject({ heldUntil: 0, failures: 0 });
});

test("a verdict in time leaves no listener on the caller's signal, and its judge is not aborted", async () => {
  const { ask, sleeps } = world();
  const stop = new AbortController();
  const added: string[] = [];
  const removed: string[] = [];
  const { addEventListener, removeEventListener } = AbortSignal.prototype;
  stop.signal.addEventListener = (...args: Parameters<typeof addEventListener>) => {
    added.push(args[0]);
    addEventListener.apply(stop.signal, args);
  };
  stop.signal.removeEventListener = (...args: Parameters<typeof removeEventListener>) => {
    removed.push(args[0]);
    removeEventListener.apply(stop.signal, args);
  };
  let signal: AbortSignal | undefined;
  await ask({
    signal: stop.signal,
    ask(context) {
      signal = context.signal;
      return 1;
    },
  });
  expect([added, removed]).toEqual([["abort"], ["abort"]]);
  for (const { end } of sleeps) end();
  await runUntilWaiting();
  expect(signal?.aborted).toBe(false);
});

test("a failure is billed at the cost that its cause reports, and nobody may ask again within a second", async () => {
  const { ask, bill, claim } = world();
  const error = new Failure("endpoint-unavailable", "HTTP 503", { evidence: { cost: cost(0.25) } });
  const { evidence, cause } = await failed(ask({ ask: () => Promise.reject(error) }));
  expect(evidence).toMatchObject({ fault: "outage" });
  expect(cause).toBe(error);
  expect(await bill()).toMatchObject({ verdicts: 0, microUsd: 250_000 });
  expect(await claim()).toMatchObject({ failures: 1, unusable: 0, heldUntil: 1_000_000 + 1000 });
  expect(await ask({ ask: () => expect.fail("asked") })).toBeUndefined();
});

test.each<[what: string, judgment: unknown, message: RegExp]>([
  ["above 1", 1.5, /^the judge answered 1\.5: a score lies in \[0, 1\]$/],
  ["below 0", -0.1, /^the judge answered -0\.1: a score lies in \[0, 1\]$/],
  ["not a number", "1", /^the judge answered 1: a score lies in \[0, 1\]$/],
  ["null", null, /^the judge answered null: a score lies in \[0, 1\]$/],
  ["nothing", undefined, /^the judge answered undefined: a score lies in \[0, 1\]$/],
  ["a symbol", { score: Symbol("s") }, /^the judge answered Symbol\(s\): a score lies in \[0, 1\]$/],
  ["NaN", Number.NaN, /^the judge answered NaN: a score lies in \[0, 1\]$/],
  ["a damaged vote", { score: 1, votes: [{ score: 2, reason: "" }] }, /^the judge's verdict: votes\.0\.score/],
  ["a damaged vote with a score of 0", { score: 0, votes: [{ score: 2, reason: "" }] }, /^the judge's verdict: votes/],
])("an answer that is not a verdict is refused as unusable: %s", async (_what, judgment, message) => {
  const { ask, claim } = world();
  const error = await failed(ask({ ask: () => judgment as Judgment }));
  expect(error).toMatchObject({ code: "judge-failed", retryable: true });
  expect(error.message).toMatch(message);
  expect(error.evidence).toEqual({ fault: "unusable-answer", unusable: 1, failingSeconds: 0 });
  expect(await claim()).toMatchObject({ failures: 1, unusable: 1 });
});

test("a thrown value that is not an Error becomes the message of the failure", async () => {
  const { ask } = world();
  expect((await failed(ask({ ask: () => Promise.reject("text") }))).message).toBe("the judge failed: text");
});

test("scores of exactly 0 and 1 are accepted", async () => {
  for (const score of [0, 1]) expect(await world().ask({ ask: () => score })).toEqual({ score });
});
