/** @file What every Clock does. */
import { expect, test } from "vitest";
import { openFreshKeys } from "../../adapters/store-contract/check.ts";
import { clockChecks } from "../../adapters/store-contract/clock.ts";
import type { Clock } from "../../core/ports.ts";

export function clockContract(open: () => Clock) {
  for (const { name, verify } of clockChecks) test(name, () => verify(open(), openFreshKeys("clock")));

  test("monotonic seconds and sleep agree", async () => {
    const before = open().monotonic();
    await open().sleep(0.05);
    expect(open().monotonic() - before).toBeGreaterThanOrEqual(0.049);
  });

  test("an aborted signal ends a sleep early, without error", async () => {
    const before = open().monotonic();
    await open().sleep(20, AbortSignal.timeout(20));
    await open().sleep(20, AbortSignal.abort());
    expect(open().monotonic() - before).toBeLessThan(5);
  });

  test("store time is wall-clock time in milliseconds, as precise as a Date header (1 s)", async () => {
    expect(Math.abs((await open().storeTime()) - Date.now())).toBeLessThan(2000);
  });
}
