/** @file What every store's clock does. */
import { ok } from "node:assert/strict";
import type { Clock } from "../../core/ports.ts";
import type { ContractCheck } from "./check.ts";

/** Beyond this, a store also refuses signed requests. */
const MAX_DIFFERENCE_MINUTES = 15;

export const clockChecks: readonly ContractCheck<Clock>[] = [
  {
    name: `the store's time (the Date header) advances, within ${MAX_DIFFERENCE_MINUTES} minutes of this machine's`,
    async verify(clock) {
      const before = await clock.storeTime();
      const minutes = Math.abs(before - Date.now()) / 60_000;
      ok(
        minutes < MAX_DIFFERENCE_MINUTES,
        `this machine's clock and the store's differ by ${minutes.toFixed(1)} minutes`,
      );
      await clock.sleep(0.1);
      ok((await clock.storeTime()) > before, "the store's time stands still");
    },
  },
];
