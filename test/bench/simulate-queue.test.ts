/**
 * @file SQS in the simulation: when a failed event is delivered again, when it is dead-lettered, and how often a queue is polled while the account
 * has no room for another call.
 */
import { afterEach, expect, test, vi } from "vitest";
import { type Lambda, now } from "../../bench/simulate/cloud/lambda.ts";
import { EventQueue } from "../../bench/simulate/cloud/queue.ts";
import { type Cloud, pause } from "../../bench/simulate/cloud/store.ts";
import { Meter } from "../../bench/simulate/meter.ts";
import { EVENT_FUNCTIONS } from "../../stacks/sizes.ts";

afterEach(() => {
  vi.useRealTimers();
});

test("a failed event is delivered again six function timeouts after its delivery, not after its call ends, and dead-lettered after its fifth delivery", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  const meter = new Meter(now);
  const delivered: number[] = [];
  const lambda = {
    hasRoom: true,
    async call() {
      delivered.push(now());
      await pause(30);
      return undefined;
    },
  };
  const queue = new EventQueue("tick", lambda as unknown as Lambda, () => ({ meter }) as unknown as Cloud);
  const start = now();
  queue.send("{}");
  const visibility = 6 * EVENT_FUNCTIONS.tick.seconds;
  await vi.advanceTimersByTimeAsync(10 * visibility * 1000);
  expect(delivered.map((at) => Math.round(at - start))).toEqual([0, 1, 2, 3, 4].map((n) => n * visibility));
  expect(meter.deadLetters).toBe(1);
});

test("while there is no room for another call, a queue polls once a second, however many events wait", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  const meter = new Meter(now);
  let polls = 0;
  let isFull = true;
  const calls: object[] = [];
  const lambda = {
    get hasRoom() {
      polls += 1;
      return !isFull;
    },
    call: async (_name: string, event: object) => void calls.push(event),
  };
  const queue = new EventQueue("tick", lambda as unknown as Lambda, () => ({ meter }) as unknown as Cloud);
  for (let i = 0; i < 50; i++) queue.send("{}");
  expect(polls).toBe(50);
  await vi.advanceTimersByTimeAsync(10_500);
  expect(polls).toBe(60);
  expect(calls).toEqual([]);
  isFull = false;
  await vi.advanceTimersByTimeAsync(1000);
  expect(calls.length).toBeGreaterThan(0);
});
