/** @file The cloud's schedule: one tick at a time, a failed tick is reported and does not end it, and stopping waits for the tick in progress. */
import { expect, onTestFinished, test, vi } from "vitest";
import { startTicks } from "../../../adapters/local-cloud/ticks.ts";

/** Only the intervals are faked: a tick ends when the test settles it. */
function useFakeIntervals(): void {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  onTestFinished(() => void vi.useRealTimers());
}

/** A schedule of one tick per second. `ends`: for each tick so far, a function that ends it. A tick that ends with an error fails. */
function start() {
  const ends: ((error?: Error) => void)[] = [];
  const reports: string[] = [];
  const handler = () =>
    new Promise<void>((resolve, reject) => {
      ends.push((error) => (error ? reject(error) : resolve()));
    });
  return { ends, reports, stop: startTicks(1, handler, (line) => reports.push(line)) };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

test("a tick is skipped while an earlier one is still running", async () => {
  useFakeIntervals();
  const { ends, stop } = start();
  vi.advanceTimersByTime(3500);
  expect(ends).toHaveLength(1);
  ends[0]?.();
  await settled();
  vi.advanceTimersByTime(1000);
  expect(ends).toHaveLength(2);
  ends[1]?.();
  await stop();
});

test("a tick that fails is reported, and the next one comes", async () => {
  useFakeIntervals();
  const { ends, reports, stop } = start();
  vi.advanceTimersByTime(1000);
  ends[0]?.(new Error("no table"));
  await settled();
  vi.advanceTimersByTime(1000);
  expect(reports).toEqual(["tick: no table; the next tick retries"]);
  expect(ends).toHaveLength(2);
  ends[1]?.();
  await stop();
});

test("a stopped schedule waits for the tick in progress, and starts no other", async () => {
  useFakeIntervals();
  const { ends, stop } = start();
  vi.advanceTimersByTime(1000);
  let isStopped = false;
  const stopping = stop().then(() => {
    isStopped = true;
  });
  vi.advanceTimersByTime(5000);
  await settled();
  expect([isStopped, ends.length]).toEqual([false, 1]);
  ends[0]?.();
  await stopping;
  vi.advanceTimersByTime(5000);
  expect(ends).toHaveLength(1);
});

test("an interval of 0 seconds means no ticks", async () => {
  useFakeIntervals();
  const handler = vi.fn(async () => {});
  const stop = startTicks(0, handler, () => {});
  vi.advanceTimersByTime(60_000);
  expect(handler).not.toHaveBeenCalled();
  await stop();
});
