/** @file One tick of a run at a time: concurrent calls share the next one, and a failed tick does not block later ones. */
import { expect, test } from "vitest";
import { tableKeys } from "../../core/contracts/keys.ts";
import { openContext } from "../../functions/context.ts";
import { openFunctions } from "../../functions/functions.ts";
import { memo } from "../../functions/memo.ts";
import { Ticker } from "../../functions/ticking.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { prepare, rewards, teamConfig } from "../fakes/scripted-team.ts";

async function started() {
  const store = memoryStore();
  const context = openContext(store, { rewardsOf: async () => rewards });
  await openFunctions(context).startRun(await prepare(store.objects, teamConfig()));
  const ticker = new Ticker(context);
  const reads = { run: 0 };
  const { get } = store.table;
  store.table.get = async (key) => {
    if (key.sk === tableKeys.run("test").sk) reads.run++;
    return get(key);
  };
  return { store, reads, tick: (run: string, thorough: boolean) => ticker.tick(run, thorough) };
}

test("twenty concurrent calls make two ticks: the running one and the next", async () => {
  const { reads, tick } = await started();
  await Promise.all(Array.from({ length: 20 }, () => tick("test", false)));
  // A tick that finds nothing to do reads RUN once.
  expect(reads.run).toBe(2);
  await tick("test", false);
  expect(reads.run).toBe(3);
});

test("a tick with nothing to do reads RUN, STEP and the first open group", async () => {
  const { store, tick } = await started();
  const keys: string[] = [];
  const { get } = store.table;
  store.table.get = (key) => {
    keys.push(key.sk);
    return get(key);
  };
  await tick("test", false);
  expect(keys).toEqual(["RUN", "STEP#000000", "GROUP"]);
});

test("a failed tick fails its callers, not later ones", async () => {
  const { store, tick } = await started();
  const { get } = store.table;
  store.table.get = () => Promise.reject(new Error("outage"));
  const first = tick("test", false);
  const next = tick("test", false);
  await expect(first).rejects.toThrow("outage");
  store.table.get = get;
  await next.catch(() => {});
  await expect(tick("test", false)).resolves.toBeUndefined();
});

test("a direct tick of an unknown run is refused", async () => {
  const { tick } = await started();
  await expect(tick("other", true)).rejects.toThrow("no run 'other' in this store");
});

test("memo: caches values, not absence or failures, and evicts the oldest", async () => {
  const loaded: string[] = [];
  const answers: Record<string, number | undefined> = { a: 1, b: 2, c: 3 };
  const read = memo(2, async (key) => {
    loaded.push(key);
    if (key === "broken") throw new Error("no");
    return answers[key];
  });
  expect([await read("a"), await read("a"), await read("none"), await read("none")]).toEqual([
    1,
    1,
    undefined,
    undefined,
  ]);
  await expect(read("broken")).rejects.toThrow("no");
  await expect(read("broken")).rejects.toThrow("no");
  expect(loaded).toEqual(["a", "none", "none", "broken", "broken"]);
  await read("b");
  await read("c");
  await read("a");
  expect(loaded.slice(5)).toEqual(["b", "c", "a"]);
});
