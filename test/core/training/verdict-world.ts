/** @file A store and a judge for tests of verdicts. The test advances the clock. */
import { setImmediate as nextEventLoopTurn } from "node:timers/promises";
import { expect } from "vitest";
import { objectKeys, tableKeys } from "../../../core/contracts/keys.ts";
import type { MgrpoError } from "../../../core/errors.ts";
import { askForVerdict, type VerdictRequest } from "../../../core/training/verdict.ts";
import { judgeSpendingOf } from "../../fakes/judge-spending.ts";
import { memoryStore } from "../../fakes/memory-store.ts";
import { sha } from "../../fakes/scripted-team.ts";

/** Seconds until a verdict's deadline. */
export const SECONDS = 60;
export const subject = sha("what is judged");

/** The token of the n-th request, from 0. All are in one JUDGES record, since the code of "p" is a multiple of the number of records. */
const tokenOf = (n: number) => "p".repeat(n + 1);

/** Runs five turns of the event loop: enough for what is under way to reach a sleep, or to wait for the test. */
export async function runUntilWaiting(): Promise<void> {
  for (let i = 0; i < 5; i++) await nextEventLoopTurn();
}

/** A store whose clock stands still: sleeps end when the test says so. */
export function world() {
  const store = memoryStore();
  const sleeps: { seconds: number; end: () => void }[] = [];
  let now = 1_000_000;
  let calls = 0;
  store.clock.storeTime = async () => now;
  store.clock.sleep = (seconds, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      sleeps.push({ seconds, end: resolve });
      signal?.addEventListener("abort", () => resolve(), { once: true });
    });
  return {
    store,
    sleeps,
    advance(seconds: number) {
      now += seconds * 1000;
    },
    async endSleep() {
      sleeps.at(-1)?.end();
      await runUntilWaiting();
    },
    ask: (change: Partial<VerdictRequest> = {}) =>
      askForVerdict(store, {
        ...{ run: "test", judge: "paid", subject, question: "q7", seconds: SECONDS, token: tokenOf(calls++) },
        ...{ ask: () => 1, ...change },
      }),
    stored: () => store.objects.get(objectKeys.verdict("test", subject, "paid")),
    claim: (judge = "paid") => store.table.get(tableKeys.verdict("test", subject, judge)),
    bill: () => judgeSpendingOf(store.table, "test"),
  };
}

export const failed = (asked: Promise<unknown>): Promise<MgrpoError> =>
  asked.then(
    () => expect.fail("it did not fail"),
    (error) => error,
  );
export const cost = (usd: number) => ({ inputTokens: 1, outputTokens: 1, usd });
