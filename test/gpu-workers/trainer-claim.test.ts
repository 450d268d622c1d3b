/** @file The claim to be an agent's trainer: who gets it, and when another worker takes it over from a dead one. */
import { beforeEach, expect, test } from "vitest";
import { tableKeys } from "../../core/contracts/keys.ts";
import { AgentRecord } from "../../core/contracts/records.ts";
import { openTrainerClaim } from "../../gpu-workers/training/trainer-claim.ts";
import { memoryStore } from "../fakes/memory-store.ts";

const key = tableKeys.agent("test", "main");
const dead = new Set<string>();
let store: ReturnType<typeof memoryStore>;

const observer = { refresh: async () => {}, workers: () => [], isDead: (worker: string) => dead.has(worker) };
const claimOf = (worker: string) =>
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

test("only one worker acquires a free claim, even before the step is ready, and its release frees the claim", async () => {
  expect(await claimOf("a").acquire(false)).toBe(true);
  expect(await claimOf("a").acquire(false)).toBe(true);
  expect(await claimOf("b").acquire(true)).toBe(false);
  await claimOf("a").release();
  expect(await claimOf("b").acquire(false)).toBe(true);
  expect(await record()).toMatchObject({ trainer: "b", takeovers: 0 });
});

test("of two workers that acquire a free claim at the same time, one gets it", async () => {
  const acquired = await Promise.all(["a", "b"].map((worker) => claimOf(worker).acquire(false)));
  expect(acquired.filter(Boolean)).toHaveLength(1);
  expect((await record()).trainer).toBe(acquired[0] ? "a" : "b");
});

test("a claim is taken over from a dead worker, and the takeover counted, only in a ready step: in an open one, a rollout may have killed the worker", async () => {
  await claimOf("a").acquire(false);
  dead.add("a");
  expect(await claimOf("b").acquire(false)).toBe(false);
  expect(await record()).toMatchObject({ trainer: "a", takeovers: 0 });
  expect(await claimOf("b").acquire(true)).toBe(true);
  expect(await record()).toMatchObject({ trainer: "b", takeovers: 1 });
});
