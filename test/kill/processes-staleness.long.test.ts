/**
 * @file Real processes on the real local cloud, as in processes.test.ts, in a run whose steps overlap: whichever is killed, the run ends with
 * the same scores, finalized groups and weights.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Built, buildProcesses } from "./build.ts";
import { type Ended, runScenario, type Scenario, uninterrupted } from "./processes.ts";

const overlapping: Scenario = { ...uninterrupted, settings: { steps: 4, staleness: 1, algorithm: { tisCap: 2 } } };
let built: Built;
let expected: Ended;
beforeAll(async () => {
  built = await buildProcesses();
  expected = await runScenario(built, overlapping);
  expect(expected.records, expected.log.join("\n")).toMatchObject({ status: "finished" });
}, 240_000);
afterAll(() => built.remove());

const scenarios: [string, Partial<Scenario>][] = [
  [
    "workers die at start-up and every event is dropped",
    { crashes: { main: "1:after", searcher: "2:before" }, events: "dropped", tickSeconds: 0.2 },
  ],
  [
    "workers die in the middle and every event arrives twice",
    { crashes: { main: "14:after", searcher: "9:before" }, events: "doubled" },
  ],
  [
    "the parent dies twice, and a worker once",
    { parentCrashes: ["20:after", "40:before"], crashes: { main: "9:before" } },
  ],
];

test.each(scenarios)("the records are the same if %s", { timeout: 240_000 }, async (_name, scenario) => {
  const ended = await runScenario(built, { ...overlapping, ...scenario });
  expect(ended.records, ended.log.join("\n")).toEqual(expected.records);
  expect(ended.started["parent"]).toBe(1 + (scenario.parentCrashes ?? []).length);
  for (const name of Object.keys(scenario.crashes ?? {})) expect(ended.started[name], name).toBeGreaterThan(1);
});
