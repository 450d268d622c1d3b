/** @file Schedules are functions of their seed, and failing ones shrink to what makes them fail. */
import { expect, test } from "vitest";
import { drawSchedule, type Fault, KINDS, PROCESSES, Schedule, undisturbed } from "./schedule.ts";
import { shrink } from "./shrink.ts";

test("a seed draws the same schedule, another seed another one, and a schedule survives JSON", () => {
  expect(drawSchedule(3)).toEqual(drawSchedule(3));
  expect(drawSchedule(3)).not.toEqual(drawSchedule(4));
  expect(Schedule.parse(JSON.parse(JSON.stringify(drawSchedule(3))))).toEqual(drawSchedule(3));
});

test("schedules disturb every channel in every way, and kill and stop every process", () => {
  const drawn = Array.from({ length: 100 }, (_, seed) => drawSchedule(seed));
  const kinds = new Set(drawn.flatMap(({ faults }) => faults.map(({ channel, kind }) => `${channel} ${kind}`)));
  const all = Object.entries(KINDS).flatMap(([channel, own]) => own.map((kind) => `${channel} ${kind}`));
  expect(kinds).toEqual(new Set(all));
  const deaths = new Set(drawn.flatMap((one) => one.deaths.map(({ process, signal }) => `${process} ${signal}`)));
  expect(new Set(drawn.map(({ page }) => page))).toEqual(new Set(["refused", "fatal"]));
  expect(deaths).toEqual(new Set(PROCESSES.flatMap((process) => [`${process} kill`, `${process} stop`])));
});

test("delays are short, except those of some events, which arrive long after their step", () => {
  const drawn = Array.from({ length: 100 }, (_, seed) => drawSchedule(seed));
  const long = drawn.flatMap(({ faults }) => faults.filter(({ kind, seconds }) => kind !== "echo" && seconds > 3));
  const kinds = new Set(long.map(({ channel, kind, seconds }) => `${channel} ${kind} ${seconds}`));
  expect(kinds).toEqual(new Set(["events delay 20"]));
});

const fault = (request: number): Fault => ({ process: "main-a", channel: "s3", request, kind: "lose", seconds: 0 });

test("a schedule shrinks to the two faults that fail together", async () => {
  const schedule: Schedule = {
    ...undisturbed,
    page: "fatal",
    faults: Array.from({ length: 40 }, (_, i) => fault(i)),
    deaths: [{ process: "cloud", request: 1, when: "after", signal: "kill", seconds: 0 }],
    clocks: { "main-a": 3 },
  };
  let trials = 0;
  const fails = async ({ faults }: Schedule) => {
    trials += 1;
    return [7, 31].every((n) => faults.some(({ request }) => request === n));
  };
  const shortest = await shrink(schedule, fails, () => true);
  expect(shortest).toEqual({ ...undisturbed, faults: [fault(7), fault(31)] });
  expect(trials).toBeLessThan(120);
});

test("when the time is up, the shortest schedule so far is returned", async () => {
  const schedule = { ...undisturbed, faults: [fault(0), fault(1), fault(2), fault(3)] };
  let left = 2;
  const shortest = await shrink(
    schedule,
    async () => true,
    () => left-- > 0,
  );
  // There is time for one trial, without the first half.
  expect(shortest.faults).toEqual([fault(2), fault(3)]);
});
