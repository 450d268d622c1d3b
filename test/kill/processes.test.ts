/**
 * @file Real processes on the real local cloud: a parent with cloud and functions, a main worker, a searcher. Whatever is killed, and
 * whatever becomes of events and clock, the run ends with the same scores, seals and weights. Every single commit point is
 * tried in commit-points.test.ts; here they are sampled.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Built, buildProcesses } from "./build.ts";
import { calm, type Ended, play, type Scenario } from "./processes.ts";

let built: Built;
let expected: Ended;
beforeAll(async () => {
  built = await buildProcesses();
  expected = await play(built, calm);
  expect(expected.records, expected.log.join("\n")).toBeDefined();
}, 60_000);
afterAll(() => built.remove());

const scenarios: [string, Partial<Scenario>][] = [
  ["workers die on arrival", { crashes: { main: "0:after", searcher: "2:before" } }],
  ["workers die in the middle", { crashes: { main: "9:before", searcher: "9:after" }, events: "late" }],
  ["workers die late and no clock ticks", { crashes: { main: "16:after", searcher: "14:before" }, clockSeconds: 0 }],
  ["the parent dies before the run is there", { parentCrash: "8:before" }],
  ["the parent dies in the middle", { parentCrash: "26:after" }],
  ["the parent dies late, a worker too", { parentCrash: "44:before", crashes: { main: "6:after" } }],
  ["every event comes twice and the clock is off", { events: "doubled", clockSeconds: 0 }],
  ["every event is dropped", { events: "dropped", clockSeconds: 0.2 }],
];

test.concurrent.each(scenarios)("%s", { timeout: 240_000 }, async (_name, scenario) => {
  const ended = await play(built, { ...calm, ...scenario });
  expect(ended.records, ended.log.join("\n")).toEqual(expected.records);
  const { parent = 0, ...workers } = ended.started;
  expect(parent).toBe(scenario.parentCrash ? 2 : 1);
  for (const name of Object.keys(scenario.crashes ?? {})) expect(workers[name], name).toBeGreaterThan(1);
  // Two seconds of their own; the rest is for a busy machine.
  expect(ended.orphanMilliseconds).toBeLessThan(6000);
});
