/** @file The one trainer's place of an agent: who gets it, and whose death is counted as a takeover. */
import { beforeEach, expect, test } from "vitest";
import { tableKeys } from "../../core/contracts/keys.ts";
import { AgentRecord } from "../../core/contracts/records.ts";
import { openTrainerClaim } from "../../gpu-workers/training/trainer-claim.ts";
import { memoryStore } from "../fakes/memory-store.ts";

const key = tableKeys.agent("test", "main");
const dead = new Set<string>();
let store: ReturnType<typeof memoryStore>;

const observer = { refresh: async () => {}, workers: () => [], isDead: (worker: string) => dead.has(worker) };
const placeOf = (worker: string) =>
  openTrainerClaim(
    { name: "test", store } as unknown as Parameters<typeof openTrainerClaim>[0],
    "main",
    worker,
    observer,
  );
const record = async () => AgentRecord.parse(await store.table.get(key));

beforeEach(async () => {
  dead.clear();
  store = memoryStore();
  await store.table.insert(key, { run: "test", agent: "main", version: 0, trainer: "", fence: 0, takeovers: 0 });
});

test("an empty place is taken whatever the step's state, by one, and left by its release", async () => {
  expect(await placeOf("a").acquire(false)).toMatchObject({ takeovers: 0 });
  expect(await placeOf("a").acquire(false)).toMatchObject({ takeovers: 0 });
  expect(await placeOf("b").acquire(true)).toBeUndefined();
  await placeOf("a").release();
  expect(await placeOf("b").acquire(false)).toMatchObject({ takeovers: 0 });
  expect(await record()).toMatchObject({ trainer: "b", takeovers: 0 });
});

test("from a dead worker it is taken, and counted, only where the step is ready: in an open one it may have died of a rollout", async () => {
  await placeOf("a").acquire(false);
  dead.add("a");
  expect(await placeOf("b").acquire(false)).toBeUndefined();
  expect(await record()).toMatchObject({ trainer: "a", takeovers: 0 });
  expect(await placeOf("b").acquire(true)).toMatchObject({ takeovers: 1 });
  expect(await record()).toMatchObject({ trainer: "b", takeovers: 1 });
});
