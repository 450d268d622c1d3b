/** @file The store's clock: how long it sleeps, what it takes from the Date headers, and its time after this machine has slept. */
import { setTimeout as pause } from "node:timers/promises";
import { expect, onTestFinished, test, vi } from "vitest";
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

test("after the machine has slept, during which the monotonic clock stood still, the store is asked for its time", async () => {
  const hours = 3_600_000;
  let wall = Date.parse("2026-01-01T22:00:00Z");
  const now = vi.spyOn(Date, "now").mockImplementation(() => wall);
  onTestFinished(() => now.mockRestore());
  const ask = vi.fn(async () => clock.sawDate(new Date(wall).toUTCString()));
  const clock = openClock(ask);
  await clock.storeTime();
  await clock.storeTime();
  expect(ask).toHaveBeenCalledTimes(1);
  wall += 8 * hours;
  expect(Math.abs((await clock.storeTime()) - wall)).toBeLessThan(1000);
  await clock.storeTime();
  expect(ask).toHaveBeenCalledTimes(2);
});

test("a Date header that was read a second late does not set the time back; one that is minutes behind does", async () => {
  const clock = openClock(async () => {});
  const noon = Date.parse("2026-01-01T12:00:00Z");
  const timeAfter = async (header: number) => {
    clock.sawDate(new Date(header).toUTCString());
    return clock.storeTime();
  };
  expect(await timeAfter(noon)).toBeGreaterThanOrEqual(noon);
  expect(await timeAfter(noon - 1000)).toBeGreaterThanOrEqual(noon);
  expect(await timeAfter(noon + 5000)).toBeGreaterThanOrEqual(noon + 5000);
  expect(await timeAfter(noon - 600_000)).toBeLessThan(noon);
});

test("a store whose responses have no Date header has no time", async () => {
  const clock = openClock(async () => clock.sawDate(undefined));
  await expect(clock.storeTime()).rejects.toMatchObject({
    code: "store-unreachable",
    message: expect.stringContaining("no Date header"),
  });
});
