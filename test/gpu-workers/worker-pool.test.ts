/** @file Which worker is picked for an invocation: all callers pick the same one, each worker gets its share, and a silent one is passed over. */
import { expect, test } from "vitest";
import type { WorkerRecord } from "../../core/contracts/records.ts";
import { WorkerPool } from "../../gpu-workers/invocations/worker-pool.ts";

const searcher = (worker: string, changes: Partial<WorkerRecord> = {}) =>
  ({ worker, agent: "searcher", state: "alive", url: "http://w", roles: ["rollout"], ...changes }) as WorkerRecord;

function openPool(workers: readonly WorkerRecord[]) {
  const time = { now: 0 };
  const observer = { refresh: async () => {}, workers: () => workers, isDead: () => false };
  const pool = new WorkerPool(observer, { monotonic: () => time.now });
  return { pool, time, pick: async (id: string) => (await pool.pick(id, "searcher"))?.worker };
}

/** The worker that is picked for each of 300 invocations. */
async function picks(...names: string[]) {
  const { pick } = openPool(names.map((name) => searcher(name)));
  return Promise.all(Array.from({ length: 300 }, (_, i) => pick(`invocation ${i}`)));
}

test("all callers pick the same worker for an invocation, and each worker gets a similar share; when one leaves, only its share moves", async () => {
  const before = await picks("a", "b", "c");
  expect(await picks("c", "a", "b")).toEqual(before);
  for (const name of ["a", "b", "c"]) expect(before.filter((one) => one === name).length).toBeGreaterThan(70);
  const after = await picks("a", "b");
  expect(after.filter((_, i) => before[i] !== "c")).toEqual(before.filter((one) => one !== "c"));
  expect(new Set(after.filter((_, i) => before[i] === "c"))).toEqual(new Set(["a", "b"]));
});

test("a worker that did not answer is passed over for one second, even if there is no other", async () => {
  const { pool, time, pick } = openPool([searcher("a"), searcher("b")]);
  const first = (await pick("id")) ?? expect.fail();
  const second = first === "a" ? "b" : "a";
  pool.passOver(searcher(first));
  expect(await pick("id")).toBe(second);
  pool.passOver(searcher(second));
  expect(await pick("id")).toBeUndefined();
  time.now = 1.1;
  expect(await pick("id")).toBe(first);
});

test("a worker is picked only if it is alive, belongs to the agent and takes invocations", async () => {
  const { pick } = openPool([
    searcher("dead", { state: "dead" }),
    searcher("draining", { state: "draining" }),
    searcher("of another agent", { agent: "reader" }),
    searcher("trainer", { roles: ["train"] }),
    searcher("without a server", { url: "" }),
  ]);
  expect(await pick("id")).toBeUndefined();
});
