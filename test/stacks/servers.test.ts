/** @file MGRPO_SERVERS: which fleets may have a SkyRL server, and how the setting names them. */
import { expect, test } from "vitest";
import { type FleetSettings, withServers } from "../../stacks/fleet.ts";
import { readSettings } from "../../stacks/settings.ts";

const fleet = (name: string, agent: string, roles: string, gpu = true): FleetSettings => ({
  ...{ name, agent, roles, gpu, instanceTypes: ["g6.xlarge"], max: 4, onDemand: 0 },
});
const FLEETS = [fleet("main", "main", "rollout,train"), fleet("cpu", "searcher", "rollout,train", false)];
const MORE = [...FLEETS, fleet("eval", "*", "eval")];
const servers = (text: string) => readSettings({ stage: "dev" }, { MGRPO_SERVERS: text }).servers;

test("a fleet with a server is a single on-demand instance; the others do not change", () => {
  expect(withServers(MORE, servers("main=Qwen/Qwen3-4B"))).toEqual([
    { ...MORE[0], server: "Qwen/Qwen3-4B", max: 1, onDemand: 1 },
    ...MORE.slice(1),
  ]);
  expect(withServers(MORE, servers(""))).toEqual(MORE);
});

test.each([
  ["other=Qwen/Qwen3-4B", /MGRPO_SERVERS: sst\.config\.ts has no fleet other/],
  ["cpu=Qwen/Qwen3-4B", /fleet cpu must have a GPU, and serve one agent/],
  ["eval=Qwen/Qwen3-4B", /fleet eval must have a GPU, and serve one agent/],
  ["main", /MGRPO_SERVERS: 'main': write <fleet>=<owner>\/<model>/],
  ["main=Qwen/Qwen3 --host 0.0.0.0", /write <fleet>=<owner>\/<model>/],
  ["main=Qwen/$(id)", /write <fleet>=<owner>\/<model>/],
  ["main=Qwen/Qwen3-4B,main=Qwen/Qwen3-8B", /a fleet is named twice/],
])("MGRPO_SERVERS=%s is refused", (text, message) => {
  expect(() => withServers(MORE, servers(text))).toThrow(message);
});

test("MGRPO_SERVERS without fleets is refused", () => {
  const read = () => readSettings({ stage: "dev" }, { MGRPO_FLEETS: "none", MGRPO_SERVERS: "main=Qwen/Qwen3-4B" });
  expect(read).toThrow(/MGRPO_SERVERS: servers run on the instances of fleets, and MGRPO_FLEETS=none/);
});
