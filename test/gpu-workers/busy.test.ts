/** @file Busy seconds and intervals, on a clock that the test sets. */
import { expect, test } from "vitest";
import type { Sampler, Trainer } from "../../core/ports.ts";
import { createBusyMeter, createBusyTimer } from "../../gpu-workers/busy.ts";
import { Intervals, MAX_INTERVALS } from "../../gpu-workers/intervals.ts";

/** Engine calls that end when the test says so. */
function pendingCalls() {
  const ends: (() => void)[] = [];
  const pending = () => new Promise<void>((end) => ends.push(end));
  const end = (i: number) => ends[i]?.();
  return { pending, end };
}

test("overlapping calls count once; a read splits an open interval, and its adjacent parts are reported as one", async () => {
  let now = 1000;
  const meter = createBusyMeter({ now: () => now });
  meter.takeSeconds();
  const { pending, end } = pendingCalls();
  const trainer = meter.trainer({ optimizerStep: pending } as unknown as Trainer);
  const call = () => trainer.optimizerStep({} as Parameters<Trainer["optimizerStep"]>[0], 1);
  const [first, second] = [call(), call()];
  now = 3000;
  end(0);
  await first;
  now = 4000;
  expect(meter.takeSeconds()).toEqual({ sampling: 0, training: 3, waiting: 0 });
  now = 4500;
  expect(meter.takeActivity()).toEqual({ sampling: [], training: [[1000, 4500]] });
  now = 5000;
  end(1);
  await second;
  now = 7000;
  expect(meter.takeSeconds()).toEqual({ sampling: 0, training: 1, waiting: 2 });
  expect(meter.takeActivity()).toEqual({ sampling: [], training: [[4500, 5000]] });
  expect(meter.takeActivity()).toEqual({ sampling: [], training: [] });
});

test("when there are too many intervals, those with the shortest gaps are merged: no busy time is lost, and the long gaps stay", () => {
  const intervals = new Intervals();
  const added: [number, number][] = [];
  // Busy for 5 ms, then idle for 1 ms; after every tenth, for 100 ms.
  let now = 0;
  for (let i = 0; i < 3 * MAX_INTERVALS; i++) {
    added.push([now, now + 5]);
    intervals.add([now, now + 5]);
    now += 5 + (i % 10 === 9 ? 100 : 1);
  }
  const kept = intervals.take();
  expect(kept.length).toBeLessThanOrEqual(MAX_INTERVALS);
  const isKept = ([start, end]: [number, number]) => kept.some(([from, to]) => from <= start && end <= to);
  expect(added.filter((one) => !isKept(one))).toEqual([]);
  const gaps = kept.slice(1).map(([start], i) => start - (kept[i]?.[1] ?? 0));
  expect(Math.min(...gaps)).toBeGreaterThan(0);
  expect(gaps.filter((gap) => gap === 100)).toHaveLength(Math.floor((3 * MAX_INTERVALS) / 10));
});

test("sampling and training are measured separately; waiting is the time with neither", async () => {
  let now = 0;
  const meter = createBusyMeter({ now: () => now });
  const { pending, end } = pendingCalls();
  const sampler = meter.sampler({ sample: pending } as unknown as Sampler);
  const trainer = meter.trainer({ optimizerStep: pending } as unknown as Trainer);
  const sampling = sampler.sample({} as Parameters<Sampler["sample"]>[0]);
  now = 2000;
  const training = trainer.optimizerStep({} as Parameters<Trainer["optimizerStep"]>[0], 1);
  now = 3000;
  end(0);
  await sampling;
  now = 7000;
  end(1);
  await training;
  now = 8000;
  // Sampling 0 to 3, training 2 to 7, neither 7 to 8.
  expect(meter.takeSeconds()).toEqual({ sampling: 3, training: 5, waiting: 1 });
});

test("a timer measures work even if it fails, and reading it resets it", async () => {
  let now = 0;
  const timer = createBusyTimer(() => now);
  const failing = timer.during(async () => {
    now = 1500;
    throw new Error("failed");
  });
  await expect(failing).rejects.toThrow("failed");
  now = 9000;
  expect(timer.takeSeconds()).toBe(1.5);
  expect(timer.takeSeconds()).toBe(0);
});
