/**
 * @file How a request for a verdict is billed: at its reported cost, at 0 if no request was answered, or at the reserved maximum if the cost is
 * unknown or cannot be recorded. A reservation after the deadline or the verdict is refused.
 */
import { expect, test } from "vitest";
import type { Judgment } from "../../../core/contracts/judge.ts";
import type { TableKey } from "../../../core/contracts/keys.ts";
import { MgrpoError as Failure } from "../../../core/errors.ts";
import type { VerdictContext } from "../../../core/ports.ts";
import { sha } from "../../fakes/scripted-team.ts";
import { cost, failed, runUntilWaiting, SECONDS, subject, world } from "./verdict-world.ts";

test("a verdict whose cost cannot be recorded is billed at what was reserved, and is not asked for again", async () => {
  const { store, ask, bill } = world();
  const asked = () =>
    ask({
      async ask(context) {
        await context.reserve(0.1);
        failNextUpdate();
        return { score: 1, cost: cost(0.08) };
      },
    });
  const { update } = store.table;
  const failNextUpdate = () => {
    store.table.update = async () => {
      store.table.update = update;
      throw new Failure("store-unreachable", "throttled", { retryable: true });
    };
  };
  expect(await failed(asked())).toMatchObject({ code: "store-unreachable" });
  expect(await bill()).toMatchObject({ microUsd: 100_000 });
  expect(await ask({ ask: () => expect.fail("asked") })).toEqual({ score: 1, cost: cost(0.08) });
});

test("a verdict that does not say what it cost is billed at what was reserved", async () => {
  const { ask, bill } = world();
  expect(await ask({ ask: ({ reserve }) => reserve(0.1).then(() => 0.5) })).toEqual({ score: 0.5 });
  expect(await bill()).toEqual({ run: "test", verdicts: 1, microUsd: 100_000, reserved: {} });
});

test("a verdict that cannot be used and does not say what it cost is billed at what was reserved", async () => {
  const { ask, bill } = world();
  const fault = new Failure("rewards-invalid", "no turns");
  const check = () => {
    throw fault;
  };
  expect(await failed(ask({ ask: ({ reserve }) => reserve(0.1).then(() => 0.5), check }))).toBe(fault);
  expect(await bill()).toEqual({ run: "test", verdicts: 0, microUsd: 100_000, reserved: {} });
});

test("a verdict that cannot be committed is still paid for", async () => {
  const { store, ask, bill } = world();
  store.objects.commit = () => Promise.reject(new Failure("store-unreachable", "down", { retryable: true }));
  const answer = { score: 1, cost: cost(0.08) };
  expect(await failed(ask({ ask: () => answer }))).toMatchObject({ code: "store-unreachable" });
  expect(await bill()).toMatchObject({ verdicts: 1, microUsd: 80_000 });
});

test.each<[what: string, answer: () => unknown, microUsd: number]>([
  ["throw an error of their own", () => Promise.reject(new SyntaxError("not JSON")), 100_000],
  ["return no verdict", () => null, 100_000],
  ["crash their thread", () => Promise.reject(new Failure("judge-failed", "the thread crashed")), 100_000],
  ["report that no request was answered", () => Promise.reject(new Failure("endpoint-unavailable", "HTTP 503")), 0],
])(
  "rewards that reserve money and %s are billed at what was reserved, or at 0 if no request was answered",
  async (_what, answer, microUsd) => {
    const { ask, bill } = world();
    const asked = ask({
      async ask(context) {
        await context.reserve(0.1);
        return (await answer()) as Judgment;
      },
    });
    expect(await failed(asked)).toMatchObject({ code: "judge-failed" });
    expect(await bill()).toMatchObject({ verdicts: 0, microUsd });
  },
);

test.each<[says: string, evidence: object, microUsd: number]>([
  ["reports what all its attempts cost", { cost: cost(0.3) }, 300_000],
  ["reports nothing", {}, 100_000],
])(
  "a judge that is cut off and then %s is billed at that, or at what was reserved",
  async (_says, evidence, microUsd) => {
    const { ask, bill, endSleep } = world();
    const asked = failed(
      ask({
        async ask({ reserve, signal }) {
          await reserve(0.1);
          return new Promise((_resolve, reject) => {
            signal.addEventListener("abort", () => reject(new Failure("canceled", "aborted", { evidence })));
          });
        },
      }),
    );
    await runUntilWaiting();
    await endSleep();
    expect((await asked).message).toBe(
      "no verdict within 60 s (limits.verdictSeconds) on a conversation about question 'q7'",
    );
    expect(await bill()).toMatchObject({ verdicts: 0, microUsd });
  },
);

/** A judge that has reserved 0.1 USD, and answers when the test says so. */
async function worldOfSlowJudge() {
  const given = world();
  let answer = (_judgment: Judgment) => {};
  const slow = given.ask({
    async ask({ reserve }) {
      await reserve(0.1);
      return new Promise<Judgment>((resolve) => (answer = resolve));
    },
  });
  await runUntilWaiting();
  return { ...given, slow, answer };
}

test.each([
  ["the same", subject],
  ["another", sha("something else")],
])(
  "a request about %s subject drops the reservation of an earlier request whose claim has expired, but the earlier maximum stays charged",
  async (_which, next) => {
    const { ask, bill, advance, slow, answer } = await worldOfSlowJudge();
    const askNext = () =>
      ask({
        subject: next,
        async ask({ reserve }) {
          await reserve(0.2);
          const { reserved } = (await bill()) ?? {};
          return { score: 1, votes: [{ score: 1, reason: Object.keys(reserved ?? {}).join() }], cost: cost(0.05) };
        },
      });
    advance(SECONDS + 31);
    // The token of the second request, and the number of its reservation.
    expect(await askNext()).toMatchObject({ votes: [{ reason: "pp-0" }] });
    const billed = { run: "test", verdicts: 1, microUsd: 150_000, reserved: {} };
    expect(await bill()).toEqual(billed);
    answer({ score: 0.5, cost: cost(0.08) });
    await slow;
    expect(await bill()).toEqual(billed);
  },
);

test("a request whose claim has not expired keeps its reservation until it settles", async () => {
  const { ask, bill, advance, slow, answer } = await worldOfSlowJudge();
  advance(SECONDS + 30);
  const other: Judgment = { score: 1, cost: cost(0.05) };
  await ask({ subject: sha("something else"), ask: ({ reserve }) => reserve(0.2).then(() => other) });
  answer({ score: 0.5, cost: cost(0.08) });
  await slow;
  expect(await bill()).toEqual({ run: "test", verdicts: 2, microUsd: 130_000, reserved: {} });
});

test("a dead caller's maximum stays charged even if another asks for the same verdict after the claim has expired from the table", async () => {
  const { store, ask, bill, advance } = world();
  const asked = (answer: () => Promise<Judgment>) => ask({ ask: ({ reserve }) => reserve(0.1).then(answer) });
  void asked(() => new Promise(() => {}));
  await runUntilWaiting();
  expect(await bill()).toMatchObject({ microUsd: 100_000 });
  advance(8 * 86_400);
  const { get, insert, update } = store.table;
  // The table has deleted the VERDICT record: another key, without an item, takes its place.
  const another = <K extends TableKey>(key: K) => (key.pk.startsWith("VERDICT#") ? { ...key, pk: `${key.pk}'` } : key);
  store.table.get = (key) => get(another(key));
  store.table.insert = (key, item) => insert(another(key), item);
  store.table.update = (change) => update({ ...change, key: another(change.key) });
  await asked(async () => ({ score: 1, cost: cost(0.05) }));
  expect(await bill()).toEqual({ run: "test", verdicts: 1, microUsd: 150_000, reserved: {} });
});

test("rewards that ignore the abort reserve nothing after their deadline, neither before nor after the bill is settled", async () => {
  const { ask, bill, endSleep } = world();
  let late: VerdictContext["reserve"] = () => expect.fail("not asked");
  const asked = failed(
    ask({
      async ask({ reserve }) {
        await reserve(0.1);
        late = reserve;
        return new Promise<Judgment>(() => {});
      },
    }),
  );
  await runUntilWaiting();
  await endSleep();
  await expect(late(0.2)).rejects.toMatchObject({ code: "judge-failed", retryable: true });
  await endSleep();
  await asked;
  await expect(late(0.4)).rejects.toMatchObject({ code: "judge-failed" });
  expect(await bill()).toEqual({ run: "test", verdicts: 0, microUsd: 100_000, reserved: {} });
});

test("a reservation after the verdict is refused, and one that was being written is taken back", async () => {
  const { store, ask, bill } = world();
  let finishWrite = () => {};
  let slow: Promise<void> | undefined;
  let late: VerdictContext["reserve"] = () => expect.fail("not asked");
  const { update } = store.table;
  const delayNextUpdate = () => {
    store.table.update = async (change) => {
      store.table.update = update;
      const updated = await update(change);
      await new Promise<void>((resolve) => (finishWrite = resolve));
      return updated;
    };
  };
  await ask({
    async ask({ reserve }) {
      await reserve(0.1);
      late = reserve;
      delayNextUpdate();
      slow = reserve(0.2);
      return { score: 1, cost: cost(0.08) };
    },
  });
  finishWrite();
  await expect(slow).rejects.toMatchObject({ code: "canceled" });
  await expect(late(0.4)).rejects.toMatchObject({ code: "canceled" });
  expect(await bill()).toEqual({ run: "test", verdicts: 1, microUsd: 80_000, reserved: {} });
});
