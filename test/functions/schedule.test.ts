/**
 * @file The race between a start and the tick that turns the clock off, at every place where one can cut into the other. Whatever the
 * order, a run that is active has its clock.
 */
import { expect, test } from "vitest";
import type { Deployment } from "../../core/contracts/deployment.ts";
import { tableKeys } from "../../core/contracts/keys.ts";
import type { RunRecord } from "../../core/contracts/records.ts";
import type { Store } from "../../core/ports.ts";
import { endRun } from "../../core/training/writes.ts";
import { openContext } from "../../functions/context.ts";
import { readRunOverview } from "../../functions/run-overview.ts";
import { readDeployment, reconcileSchedule, startSchedule } from "../../functions/steering.ts";
import { controlPlane, memoryControls } from "../fakes/control-plane.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { prepare, rewards, teamConfig } from "../fakes/scripted-team.ts";

const deployment: Deployment = { release: "1", bucket: "b", clockRule: "clock", fleets: [] };

/** A store with one run that is over, its clock still on, and a run `new` of which only RUN is missing. */
async function world() {
  const memory = memoryStore();
  await memory.table.insert(tableKeys.deployment, { deployment: JSON.stringify(deployment) });
  const plane = controlPlane([], "on");
  let effects = 0;
  const scripts = new Map<number, () => Promise<void>>();
  /** Before the tick's n-th effect, whatever is scripted there happens. */
  const scripted = async <T>(effect: () => Promise<T>): Promise<T> => {
    await scripts.get(effects++)?.();
    return effect();
  };
  const controls = memoryControls(plane);
  const opened = (store: Store, through: <T>(effect: () => Promise<T>) => Promise<T>) =>
    openContext(
      {
        ...store,
        table: {
          ...store.table,
          get: (key) => through(() => store.table.get(key)),
          query: (pk, prefix) => through(() => store.table.query(pk, prefix)),
        },
      },
      {
        rewardsOf: async () => rewards,
        controlsOf: () => ({
          ...controls,
          clockSwitch: {
            isOn: () => through(() => controls.clockSwitch.isOn()),
            turn: (to) => through(() => controls.clockSwitch.turn(to)),
          },
        }),
      },
    );
  const plain = opened(memory, (effect) => effect());
  const record = (run: string, status: RunRecord["status"]): RunRecord => ({
    ...{
      run,
      status,
      reason: "",
      step: 0,
      configSha256: "0".repeat(64),
      questionsSha256: "0".repeat(64),
      startedAt: 0,
      maxHours: null,
      maxUsd: null,
    },
  });
  for (const run of ["old", "new"]) {
    const { objects, table } = memory;
    const { config } = await prepare(objects, teamConfig({ run, evaluation: { suites: [] } }));
    await objects.commit(`runs/${run}/config.json`, new TextEncoder().encode(JSON.stringify(config)));
    await table.insert(tableKeys.listed(run), { run });
  }
  await memory.table.insert(tableKeys.run("old"), record("old", "halted"));
  return {
    plane,
    scripts,
    /** The start's two steps, in their order. */
    start: [
      async () => void (await memory.table.insert(tableKeys.run("new"), record("new", "running"))),
      () => startSchedule(plain),
    ] as const,
    end: () => memory.table.update(endRun("new", "halted", "over")),
    async tick() {
      const context = opened(memory, scripted);
      const overview = await readRunOverview(context);
      const deployed = await readDeployment(context);
      if (deployed) await reconcileSchedule(context, deployed, overview);
    },
    effects: () => effects,
  };
}

const inTurn = (first: () => Promise<void>, second: () => Promise<void>) => async () => {
  await first();
  await second();
};

/** Effects of an undisturbed tick that turns the clock off. */
async function effectsOfIdleTick(): Promise<number> {
  const { tick, effects, plane } = await world();
  await tick();
  expect(plane.writes).toEqual(["clock off"]);
  return effects();
}

test("a start that cuts into the tick at any two places has its clock", async () => {
  const places = await effectsOfIdleTick();
  expect(places).toBeGreaterThan(5);
  let turnedOff = 0;
  for (let first = 0; first <= places; first++) {
    for (let second = first; second <= places; second++) {
      const { plane, scripts, start, tick } = await world();
      const [found, turnOn] = start;
      scripts.set(first, first === second ? inTurn(found, turnOn) : found);
      if (first !== second) scripts.set(second, turnOn);
      await tick();
      for (const place of [first, second]) if (place === places) await scripts.get(place)?.();
      if (second === places && first < places) await turnOn();
      expect(plane.clock, `RUN before effect ${first}, turned on before effect ${second}`).toBe("on");
      turnedOff += plane.writes.includes("clock off") ? 1 : 0;
    }
  }
  // The race was run: in most of these orders the tick did turn it off.
  expect(turnedOff).toBeGreaterThan(places);
});

test("a tick that dies anywhere while a run starts is called again, and the run has its clock", async () => {
  const places = await effectsOfIdleTick();
  for (let dies = 0; dies < places; dies++) {
    for (let starts = 0; starts <= dies; starts++) {
      const { plane, scripts, start, tick } = await world();
      const [found, turnOn] = start;
      const begin = inTurn(found, turnOn);
      const die = (): Promise<void> => Promise.reject(new Error("died"));
      scripts.set(starts, starts === dies ? inTurn(begin, die) : begin);
      if (starts !== dies) scripts.set(dies, die);
      // One that started early enough was seen before the tick came so far.
      await tick().catch(() => {});
      scripts.clear();
      await tick();
      expect(plane.clock, `started before effect ${starts}, died before effect ${dies}`).toBe("on");
    }
  }
});

test("two ticks, one run that starts and ends between them: the clock goes off once nothing is left", async () => {
  const { plane, start, end, tick } = await world();
  for (const step of start) await step();
  await tick();
  expect([plane.clock, plane.writes]).toEqual(["on", ["clock on"]]);
  await end();
  await tick();
  expect(plane.clock).toBe("off");
});
