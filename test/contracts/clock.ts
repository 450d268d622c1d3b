/** @file The contract of Clock, for every adapter. */
import { expect, test } from "vitest";
import { openFreshKeys } from "../../adapters/store-contract/check.ts";
import { clockChecks } from "../../adapters/store-contract/clock.ts";
import type { Clock } from "../../core/ports.ts";

/** @param ask sends a request to the clock's store, if the clock reads its time from the store's responses. */
export function clockContract(open: () => Clock, ask: () => Promise<unknown> = async () => {}) {
  for (const { name, verify } of clockChecks) test(name, () => verify(open(), openFreshKeys("clock")));

  test("a sleep ends at most 1 ms early, by the monotonic clock", async () => {
    const before = open().monotonic();
    await open().sleep(0.05);
    expect(open().monotonic() - before).toBeGreaterThanOrEqual(0.049);
  });

  test("an aborted signal ends a sleep early, without error", async () => {
    const before = open().monotonic();
    await open().sleep(600, AbortSignal.timeout(20));
    await open().sleep(600, AbortSignal.abort());
    expect(open().monotonic() - before).toBeLessThan(100);
  });

  test("store time is wall-clock time in milliseconds, less than 2 s from this machine's", async () => {
    const difference = async () => {
      await ask();
      return Math.abs((await open().storeTime()) - Date.now());
    };
    // A Date header has whole seconds. A response that is read late makes the clock wrong until the next one.
    await expect.poll(difference).toBeLessThan(2000);
  });
}
