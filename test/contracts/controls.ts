/** @file The contract of Controls, for every adapter. `plane`: the state that they act on, with the groups `a` and `b` and the rule `clock`. */
import { expect, test } from "vitest";
import type { Controls } from "../../core/ports.ts";
import type { ControlPlane } from "../fakes/control-plane.ts";

export function controlsContract(open: () => { controls: Controls; plane: ControlPlane }) {
  test("a capacity is the last one written; a repeated write changes nothing", async () => {
    const { controls, plane } = open();
    await controls.capacities.write("a", 3);
    await controls.capacities.write("a", 3);
    expect(await controls.capacities.read(["a", "b"])).toEqual(new Map(Object.entries({ a: 3, b: 0 })));
    await controls.capacities.write("a", 0);
    expect(plane.capacities).toEqual(new Map(Object.entries({ a: 0, b: 0 })));
  });

  test("a missing group is left out of the capacities, and writing its capacity is an error", async () => {
    const { controls } = open();
    expect([...(await controls.capacities.read(["a", "c"])).keys()]).toEqual(["a"]);
    await expect(controls.capacities.write("c", 1)).rejects.toThrow(/\bc\b/);
  });

  test("the schedule keeps the last state set, however often it is set", async () => {
    const { controls, plane } = open();
    for (const to of ["on", "on", "off", "off", "on"] as const) {
      await controls.scheduleSwitch.turn(to);
      expect([await controls.scheduleSwitch.isOn(), plane.clock]).toEqual([to === "on", to]);
    }
  });

  test("object events are redelivered, even more than fit in one request", async () => {
    const { controls, plane } = open();
    const keys = Array.from({ length: 23 }, (_, i) => `runs/r/outcomes/000000/0/${i}.json`);
    await controls.events.redeliver(keys);
    expect(plane.redelivered).toEqual(keys);
  });
}
