/** @file The store's clock: how long it sleeps. */
import { setTimeout as pause } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import { openClock } from "../../../adapters/aws/clock.ts";

test("a sleep longer than a timer can wait does not end at once", async () => {
  const ended = vi.fn();
  const stop = new AbortController();
  const sleeping = openClock(async () => {})
    .sleep(1e9, stop.signal)
    .then(ended);
  await pause(20);
  expect(ended).not.toHaveBeenCalled();
  stop.abort();
  await sleeping;
});
