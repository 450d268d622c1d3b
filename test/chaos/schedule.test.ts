/** @file Schedules are functions of their seed, and failing ones shrink to what makes them fail. */
import { expect, test } from "vitest";
import { ANSWER_LOSING_PROCESSES, MAX_CONCURRENT_REQUESTS } from "./checker.ts";
import { drawSchedule, KINDS } from "./draw-schedule.ts";
import { hostileDocuments } from "./hostile-pages.ts";
import { type Fault, PROCESSES, Schedule, STEPS, undisturbed } from "./schedule.ts";
import { shrink } from "./shrink.ts";

test("a seed always draws the same schedule, another seed draws another, and a schedule survives JSON", () => {
  expect(drawSchedule(3)).toEqual(drawSchedule(3));
  expect(drawSchedule(3)).not.toEqual(drawSchedule(4));
  expect(Schedule.parse(JSON.parse(JSON.stringify(drawSchedule(3))))).toEqual(drawSchedule(3));
});

test("about half of the searchers are priced, and about half of run `a` are asynchronous; without these settings, a schedule has a trained searcher and a synchronous run", () => {
  const drawn = Array.from({ length: 500 }, (_, seed) => drawSchedule(seed));
  expect(drawn.filter(({ searcher }) => searcher === "priced").length).toBe(249);
  expect(drawn.filter(({ staleness }) => staleness > 0).length).toBe(260);
  const { searcher: _, staleness: __, ...older } = undisturbed;
  expect(Schedule.parse(older)).toEqual(undisturbed);
});

test("schedules disturb every channel in every way, and kill and stop every process", () => {
  const drawn = Array.from({ length: 100 }, (_, seed) => drawSchedule(seed));
  const kinds = new Set(drawn.flatMap(({ faults }) => faults.map(({ channel, kind }) => `${channel} ${kind}`)));
  const all = Object.entries(KINDS).flatMap(([channel, own]) => own.map((kind) => `${channel} ${kind}`));
  expect(kinds).toEqual(new Set([...all, "dynamo hang", "dynamo full", "s3 hang", "calls hang"]));
  const silent = drawn.flatMap(({ faults }) =>
    faults.filter(({ channel, kind }) => ["dynamo", "s3"].includes(channel) && kind === "hang"),
  );
  // About one per trial, since each takes half a minute.
  expect(silent.length / drawn.length).toBeGreaterThan(0.3);
  expect(silent.length / drawn.length).toBeLessThan(2);
  const deaths = new Set(drawn.flatMap((one) => one.deaths.map(({ process, signal }) => `${process} ${signal}`)));
  const timed = drawn.flatMap((one) => one.deaths.filter((death) => "atSeconds" in death));
  expect(new Set(timed.map(({ process, signal }) => `${process} ${signal}`))).toEqual(deaths);
  const longest = new Set(drawn.flatMap((one) => one.deaths.map(({ seconds }) => seconds)).filter((s) => s > 3));
  expect(longest).toEqual(new Set([20]));
  expect(drawn.filter(({ sleeps }) => sleeps.length > 0).length).toBeGreaterThan(10);
  expect(new Set(drawn.map(({ page }) => page))).toEqual(new Set(Object.keys(hostileDocuments)));
  expect(deaths).toEqual(new Set(PROCESSES.flatMap((process) => [`${process} kill`, `${process} stop`])));
});

test("the number of faults and deaths per step does not depend on the number of steps", () => {
  const meanOf = (steps: number, count: (schedule: Schedule) => number) =>
    Array.from({ length: 100 }, (_, seed) => count(drawSchedule(seed, steps))).reduce((sum, n) => sum + n) /
    100 /
    steps;
  const faults = ({ faults }: Schedule) => faults.length;
  expect(meanOf(10 * STEPS, faults) / meanOf(STEPS, faults)).toBeCloseTo(1, 1);
  const deaths = ({ deaths }: Schedule) => deaths.length;
  expect(meanOf(10 * STEPS, deaths) / meanOf(STEPS, deaths)).toBeCloseTo(1, 0);
  const { steps, deaths: all, faults: every } = drawSchedule(3, 10 * STEPS);
  expect(steps).toBe(10 * STEPS);
  // In the last tenth of the requests and of the time, too.
  expect(every.some(({ channel, request }) => channel === "dynamo" && request > 7200)).toBe(true);
  expect(all.some((death) => "atSeconds" in death && death.atSeconds > 360)).toBe(true);
  // At most two deaths of a process fall in the requests or the time of any part of three steps.
  for (const process of PROCESSES)
    for (let part = 0; part < 10; part++) {
      const within = all.filter(
        (death) =>
          death.process === process &&
          ("request" in death ? Math.floor(death.request / 300) : Math.floor(death.atSeconds / 40.01)) === part,
      );
      expect(within.length).toBeLessThanOrEqual(2);
    }
});

test("the schedules of seeds 1 to 241 excuse 82 answers of the judge on average, as docs/chaos.md says", () => {
  const excuses = ({ faults, deaths }: Schedule) =>
    faults.filter(({ process, channel }) => process === "functions" && channel !== "events").length +
    MAX_CONCURRENT_REQUESTS * deaths.filter(({ process }) => ANSWER_LOSING_PROCESSES.test(process)).length;
  const drawn = Array.from({ length: 241 }, (_, i) => excuses(drawSchedule(i + 1)));
  expect(Math.round(drawn.reduce((sum, n) => sum + n) / drawn.length)).toBe(82);
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
    page: "longTitle",
    faults: Array.from({ length: 40 }, (_, i) => fault(i)),
    deaths: [{ process: "cloud", request: 1, when: "after", signal: "kill", seconds: 0 }],
    sleeps: [{ atSeconds: 3, minutes: 60 }],
    steps: 6,
    clocks: { "main-a": 3 },
  };
  let trials = 0;
  const fails = async ({ faults }: Schedule) => {
    trials += 1;
    return [7, 31].every((n) => faults.some(({ request }) => request === n));
  };
  const shortest = await shrink(schedule, fails, () => true);
  expect(shortest).toEqual({ ...undisturbed, steps: 6, faults: [fault(7), fault(31)] });
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
