/** @file One trial with every kind of fault, compared with an undisturbed one. `npm run chaos` runs as many as there is time for. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Built } from "../kill/build.ts";
import { check } from "./checker.ts";
import { drawSchedule } from "./draw-schedule.ts";
import type { Trial } from "./history.ts";
import { APP_RUN, referenceOf, type Schedule } from "./schedule.ts";
import { buildTrials, runTrial } from "./trial.ts";
import { HOSTILE_WORD } from "./world.ts";

const DEADLINE_SECONDS = 240;
/** Enough for a step that trains asynchronously, and for evaluations before and after. */
const STEPS = 2;
/** In its trial, the store, a worker that trains and one that evaluates die or stop, requests meet every kind of fault, and the hostile page is read. */
const SEED = 2360;

let built: Built;
beforeAll(async () => {
  built = await buildTrials();
}, 240_000);
afterAll(() => built.remove());

/** The trial, whose waits may be longer: other tests run alongside it. */
const patient = (trial: Trial): Trial => ({ ...trial, limits: { ...trial.limits, slack: 60 } });

/** Only one process meets requests that hang: each lasts until a deadline of up to half a minute. */
function schedule(): Schedule {
  const drawn = drawSchedule(SEED, STEPS);
  return { ...drawn, faults: drawn.faults.filter(({ kind, process }) => kind !== "hang" || process === "searcher-a") };
}

test("lost responses, deaths, throttling and wrong clocks do not change a run", { timeout: 600_000 }, async () => {
  const reference = patient(await runTrial(built, referenceOf(schedule()), DEADLINE_SECONDS));
  expect(check({ trial: reference, reference }), reference.log.join("\n")).toEqual([]);
  expect(reference.history.map(({ path }) => path)).toContain(`/page?word=${HOSTILE_WORD}`);
  expect(reference.runs.find(({ run }) => run !== APP_RUN)?.toolsMicroUsd).toBeGreaterThan(0);
  expect(reference.history.map(({ channel }) => channel)).toEqual(expect.arrayContaining(["app", "gateway"]));
  expect(reference.history.some(({ path }) => path.includes("/sessions/"))).toBe(true);
  const trial = patient(await runTrial(built, schedule(), DEADLINE_SECONDS));
  expect(check({ trial, reference }), trial.log.join("\n")).toEqual([]);
  expect(trial.history.filter(({ fault }) => fault !== undefined).length).toBeGreaterThan(50);
  expect(trial.strikes.length).toBeGreaterThan(1);
});
