/** @file Once a request for instances is counted, it is made, even if the store fails in between. */
import { expect, test } from "vitest";
import type { Deployment } from "../../core/contracts/deployment.ts";
import { tableKeys } from "../../core/contracts/keys.ts";
import { openContext } from "../../functions/context.ts";
import { openFunctions } from "../../functions/functions.ts";
import { controlPlane, memoryControls } from "../fakes/control-plane.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { prepare, rewards, teamConfig } from "../fakes/scripted-team.ts";

test("a request is made even if the store fails right after it is counted", async () => {
  const store = memoryStore();
  const fleet = { name: "main", agent: "main", group: "g-main", max: 4, release: "1" };
  const fleets: Deployment["fleets"] = [{ ...fleet, roles: ["rollout", "train"] }];
  const deployment: Deployment = { release: "1", bucket: "b", clockRule: "clock", fleets };
  await store.table.insert(tableKeys.deployment, { deployment: JSON.stringify(deployment) });
  const plane = controlPlane([fleet.group]);
  const controlsOf = () => memoryControls(plane);
  const functions = openFunctions(openContext(store, { rewardsOf: async () => rewards, controlsOf }));
  await functions.startRun(await prepare(store.objects, teamConfig()));

  const { get, query, update } = store.table;
  const refuse = () => Promise.reject(new Error("the store says no"));
  const key = tableKeys.fleet("test", fleet.name);
  store.table.update = async (change) => {
    const result = await update(change);
    if (change.key.sk === key.sk) Object.assign(store.table, { get: refuse, query: refuse, update: refuse });
    return result;
  };
  await functions.reconcile();
  Object.assign(store.table, { get, query, update });
  expect(await store.table.get(key)).toMatchObject({ capacityRequests: 1 });
  expect(plane.capacities.get(fleet.group)).toBe(1);
});
