/**
 * @file Real processes on the real local cloud: a parent with cloud and functions, a main worker, a searcher. Whichever is killed, and
 * whatever happens to events and scheduled ticks, the run ends with the same scores, finalized groups and weights. commit-points.test.ts tries every
 * commit point; here they are sampled.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Built, buildProcesses } from "./build.ts";
import { type Ended, runScenario, type Scenario, uninterrupted } from "./processes.ts";

let built: Built;
let expected: Ended;
beforeAll(async () => {
  built = await buildProcesses();
  expected = await runScenario(built, uninterrupted);
  expect(expected.records, expected.log.join("\n")).toMatchObject({ status: "finished" });
}, 240_000);
afterAll(() => built.remove());

const scenarios: [string, Partial<Scenario>][] = [
  [
    "workers die at start-up and every event is dropped",
    { crashes: { main: "0:after", searcher: "2:before" }, events: "dropped", tickSeconds: 0.2 },
  ],
  [
    "workers die in the middle and every event is late",
    { crashes: { main: "9:before", searcher: "9:after" }, events: "late" },
  ],
  [
    "workers die late, every event arrives twice and nothing is scheduled",
    { crashes: { main: "16:after", searcher: "14:before" }, events: "doubled", tickSeconds: 0 },
  ],
  ["the parent dies before the run exists, and again in the middle", { parentCrashes: ["8:before", "26:after"] }],
  ["the parent dies late, and a worker too", { parentCrashes: ["44:before"], crashes: { main: "6:after" } }],
];

test.concurrent.each(scenarios)("the records are the same if %s", { timeout: 240_000 }, async (_name, scenario) => {
  const ended = await runScenario(built, { ...uninterrupted, ...scenario });
  expect(ended.records, ended.log.join("\n")).toEqual(expected.records);
  const { parent = 0, ...workers } = ended.started;
  expect(parent).toBe(1 + (scenario.parentCrashes ?? []).length);
  for (const name of Object.keys(scenario.crashes ?? {})) expect(workers[name], name).toBeGreaterThan(1);
  // A worker may take two seconds to exit; the rest allows for a busy machine. One that misses its parent's death waits 30 seconds for the store.
  expect(ended.orphanMilliseconds).toBeLessThan(20_000);
});
