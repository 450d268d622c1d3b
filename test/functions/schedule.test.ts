/**
 * @file The race between a start and the tick that turns the schedule off, in every interleaving: once both have ended, the schedule is on if
 * a run is active.
 */
import { expect, test } from "vitest";
import type { Deployment } from "../../core/contracts/deployment.ts";
import { tableKeys } from "../../core/contracts/keys.ts";
import type { RunRecord } from "../../core/contracts/records.ts";
import type { Controls, Store } from "../../core/ports.ts";
import { endRun } from "../../core/training/writes.ts";
import { openContext, readControlledDeployment } from "../../functions/context.ts";
import { readRunOverview, reconcileSchedule, startSchedule } from "../../functions/reconciling.ts";
import { controlPlane, memoryControls } from "../fakes/control-plane.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { prepare, rewards, runRecord, teamConfig } from "../fakes/scripted-team.ts";

const deployment: Deployment = { release: "1", bucket: "b", clockRule: "clock", fleets: [] };

type Effects = <T>(effect: () => Promise<T>) => Promise<T>;

const unscripted: Effects = (effect) => effect();

/** Counts effects. Before effect n, runs the script that is registered for n, once. */
function scriptedEffects() {
  let count = 0;
  const scripts = new Map<number, () => Promise<void>>();
  const through: Effects = async (effect) => {
    const effectNumber = count++;
    const script = scripts.get(effectNumber);
    scripts.delete(effectNumber);
    await script?.();
    return effect();
  };
  return { scripts, through, count: () => count };
}

/** A context whose reads of the table, and uses of the schedule's switch, go through `through`. */
function contextOf(store: Store, controls: Controls, through: Effects) {
  const { table } = store;
  const { scheduleSwitch } = controls;
  const wrappedTable: Store["table"] = {
    ...table,
    get: (key) => through(() => table.get(key)),
    query: (pk, prefix) => through(() => table.query(pk, prefix)),
  };
  const wrappedSwitch: Controls["scheduleSwitch"] = {
    isOn: () => through(() => scheduleSwitch.isOn()),
    turn: (to) => through(() => scheduleSwitch.turn(to)),
  };
  return openContext(
    { ...store, table: wrappedTable },
    { rewardsOf: async () => rewards, controlsOf: () => ({ ...controls, scheduleSwitch: wrappedSwitch }) },
  );
}

const recordOf = (run: string, status: RunRecord["status"]) => runRecord({ run, status, step: 0 });

/** A store with one run that is over, and a listed run `new` that has no RUN yet. */
async function storeOfRuns(): Promise<Store> {
  const store = memoryStore();
  const { objects, table } = store;
  await table.insert(tableKeys.deployment, { deployment: JSON.stringify(deployment) });
  for (const run of ["old", "new"]) {
    const { config } = await prepare(objects, teamConfig({ run, evaluation: { suites: [] } }));
    await objects.commit(`runs/${run}/config.json`, new TextEncoder().encode(JSON.stringify(config)));
    await table.insert(tableKeys.listed(run), { run });
  }
  await table.insert(tableKeys.run("old"), recordOf("old", "halted"));
  return store;
}

/** The runs of `storeOfRuns`, with the schedule on. */
async function world() {
  const store = await storeOfRuns();
  const plane = controlPlane([], "on");
  const controls = memoryControls(plane);
  const { scripts, through, count } = scriptedEffects();
  const plain = contextOf(store, controls, unscripted);
  return {
    plane,
    /** By the number of the tick's effect. */
    scripts,
    /** The two steps of a start. */
    start: [
      async () => void (await store.table.insert(tableKeys.run("new"), recordOf("new", "running"))),
      () => startSchedule(plain),
    ] as const,
    end: () => store.table.update(endRun("new", { code: "user", reason: "over" })),
    async tick() {
      const context = contextOf(store, controls, through);
      const overview = await readRunOverview(context);
      const deployed = await readControlledDeployment(context);
      if (deployed) await reconcileSchedule(context, deployed, overview);
    },
    effects: count,
  };
}

const inSequence = (first: () => Promise<void>, second: () => Promise<void>) => async () => {
  await first();
  await second();
};

/** The number of effects of a tick that turns the schedule off. */
async function effectsOfIdleTick(): Promise<number> {
  const { tick, effects, plane } = await world();
  await tick();
  expect(plane.writes).toEqual(["clock off"]);
  return effects();
}

test("however the two steps of a start interleave with the tick, the schedule ends up on", async () => {
  const effects = await effectsOfIdleTick();
  expect(effects).toBeGreaterThan(5);
  let turnedOff = 0;
  for (let first = 0; first <= effects; first++) {
    for (let second = first; second <= effects; second++) {
      const { plane, scripts, start, tick } = await world();
      const [createRun, turnOn] = start;
      scripts.set(first, first === second ? inSequence(createRun, turnOn) : createRun);
      if (first !== second) scripts.set(second, turnOn);
      await tick();
      // Steps of the start that come after the tick's last effect.
      for (const step of scripts.values()) await step();
      expect(plane.clock, `RUN before effect ${first}, turned on before effect ${second}`).toBe("on");
      turnedOff += plane.writes.includes("clock off") ? 1 : 0;
    }
  }
  // In many of these interleavings, the tick did turn it off.
  expect(turnedOff).toBeGreaterThan(effects);
});

test("wherever in a tick a run starts, and wherever the tick then dies, its retry leaves the schedule on", async () => {
  const effects = await effectsOfIdleTick();
  for (let dies = 0; dies < effects; dies++) {
    for (let starts = 0; starts <= dies; starts++) {
      const { plane, scripts, start, tick } = await world();
      const [createRun, turnOn] = start;
      const begin = inSequence(createRun, turnOn);
      const die = (): Promise<void> => Promise.reject(new Error("died"));
      scripts.set(starts, starts === dies ? inSequence(begin, die) : begin);
      if (starts !== dies) scripts.set(dies, die);
      // If the start came early enough, the tick saw the run and ended before effect `dies`.
      await tick().catch(() => {});
      scripts.clear();
      await tick();
      expect(plane.clock, `started before effect ${starts}, died before effect ${dies}`).toBe("on");
    }
  }
});

test("the schedule is turned off once no run is active", async () => {
  const { plane, start, end, tick } = await world();
  for (const step of start) await step();
  await tick();
  expect([plane.clock, plane.writes]).toEqual(["on", ["clock on"]]);
  await end();
  await tick();
  expect(plane.clock).toBe("off");
});
