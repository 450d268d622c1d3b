/**
 * @file Which fleets of sst.config.ts are refused before they are deployed: those that the contract of the DEPLOYMENT record refuses, those
 * whose agent and roles do not fit, repeated roles, and an onDemand that is not between 0 and max.
 */
import { expect, test } from "vitest";
import { Fleet } from "../../core/contracts/deployment.ts";
import { type FleetSettings, refuseUnusable } from "../../stacks/fleet.ts";

const FLEET: FleetSettings = {
  ...{ name: "critic", agent: "critic", roles: "rollout,train", gpu: true, instanceTypes: ["g6.xlarge"] },
  ...{ max: 4, onDemand: 1 },
};

/** Whether the contract accepts the fleet as stacks/deployment.ts writes it. */
const isParsed = ({ name, agent, roles, max }: FleetSettings) =>
  Fleet.safeParse({ name, agent, roles: roles.split(","), max, group: "g", release: "1" }).success;

test.each<[Partial<FleetSettings>, RegExp]>([
  [{ name: "Critic" }, /fleet Critic: name: write 1 to 31 lower-case letters/],
  [{ name: "constructor" }, /choose a word other than .constructor./],
  [{ agent: "constructor" }, /choose a word other than .constructor./],
  [{ name: "4090" }, /fleet 4090: name: write .* the first a letter/],
  [{ agent: "Critic" }, /fleet critic: agent: 'Critic': write an agent's name/],
  [{ agent: "" }, /agent: '': write/],
  [{ roles: "rollout, train" }, /roles: ' train': write rollout, train, eval, separated by commas without spaces/],
  [{ roles: "" }, /roles: '': write/],
  [{ max: 0, onDemand: 0 }, /max: 0: write/],
  [{ max: 1.5 }, /max: 1.5: write/],
])("%o is refused, as the contract refuses it", (change, message) => {
  const fleet = { ...FLEET, ...change };
  expect(isParsed(fleet)).toBe(false);
  expect(() => refuseUnusable([fleet])).toThrow(message);
});

test.each<[Partial<FleetSettings>, RegExp]>([
  [{ agent: "*" }, /write agent \* with roles eval/],
  [{ roles: "eval" }, /write agent \* with roles eval/],
  [{ roles: "rollout,eval" }, /write agent \* with roles eval alone/],
  [{ agent: "*", roles: "eval,train" }, /write agent \* with roles eval alone/],
  [{ onDemand: 5 }, /onDemand: 5: write how many of its 4 instances/],
  [{ onDemand: -1 }, /onDemand: -1: write/],
])("%o is refused: agent and roles do not fit, or onDemand is not between 0 and max", (change, message) => {
  expect(() => refuseUnusable([{ ...FLEET, ...change }])).toThrow(message);
});

test.each(["train,train", "rollout,train,rollout"])(
  "roles %s are refused as a repetition, not as two fleets for the same work",
  (roles) => {
    expect(() => refuseUnusable([{ ...FLEET, roles }])).toThrow(/fleet critic: roles: '\w+' is listed twice/);
  },
);

test.each<Partial<FleetSettings>>([{}, { agent: "*", roles: "eval", onDemand: 0 }, { roles: "train", max: 1 }])(
  "%o is accepted",
  (change) => {
    const fleet = { ...FLEET, ...change };
    expect(isParsed(fleet)).toBe(true);
    expect(() => refuseUnusable([fleet])).not.toThrow();
  },
);
