/** @file Seconds and intervals of a worker's engine, on a clock that the test sets. */
import { expect, test } from "vitest";
import { createBusyMeter } from "../../gpu-workers/busy.ts";

test("overlapping calls count once; an interval that is open when it is read is cut there; intervals are kept only where asked for", async () => {
  let now = 1000;
  const meters = [true, false].map((keepsIntervals) => createBusyMeter({ keepsIntervals, now: () => now }));
  for (const meter of meters) {
    now = 1000;
    meter.takeSeconds();
    const ends: (() => void)[] = [];
    const call = () => meter.training(() => new Promise<void>((end) => ends.push(end)));
    const [first, second] = [call(), call()];
    now = 3000;
    ends[0]?.();
    await first;
    now = 4000;
    expect(meter.takeSeconds()).toEqual({ sampling: 0, training: 3, waiting: 0 });
    now = 5000;
    ends[1]?.();
    await second;
    now = 7000;
    expect(meter.takeSeconds()).toEqual({ sampling: 0, training: 1, waiting: 2 });
  }
  const kept = [
    [1000, 4000],
    [4000, 5000],
  ];
  expect(meters.map((meter) => meter.takeIntervals())).toEqual([kept, []]);
  expect(meters.map((meter) => meter.takeIntervals())).toEqual([[], []]);
});
