/** @file What every Table does. */
import { expect, test } from "vitest";
import type { Table, TableItem } from "../../core/ports.ts";

let made = 0;
const fresh = () => ({ pk: `GROUP#${process.pid}#${++made}`, sk: "GROUP" });

export function tableContract(open: () => Table) {
  async function inserted(item: TableItem) {
    const key = fresh();
    expect(await open().insert(key, item)).toBe(true);
    return key;
  }

  test("an item comes back as it was put, without its keys", async () => {
    const item = {
      text: "é\n",
      empty: "",
      n: -0.1,
      big: 2 ** 53 - 1,
      small: 1e-17,
      yes: true,
      none: null,
      list: [1, "a", [], {}],
      map: { "odd.name-#:": { deep: [] } },
    };
    expect(await open().get(await inserted(item))).toEqual(item);
    expect(await open().get(fresh())).toBeUndefined();
  });

  test("several come in the order asked for, also more than a batch holds; undefined where there is none", async () => {
    const keys = await Promise.all(Array.from({ length: 120 }, (_, i) => inserted({ i })));
    const asked = [fresh(), ...keys.toReversed(), fresh()];
    const items = keys.map((_, i) => ({ i: keys.length - 1 - i }));
    expect(await open().getAll(asked)).toEqual([undefined, ...items, undefined]);
    expect(await open().getAll([])).toEqual([]);
  });

  test("undefined entries are left out", async () => {
    const key = await inserted({ map: { a: 1, b: undefined } });
    expect(await open().get(key)).toEqual({ map: { a: 1 } });
  });

  test("the first insert wins and the second changes nothing", async () => {
    const key = await inserted({ a: 1 });
    expect(await open().insert(key, { a: 2 })).toBe(false);
    expect(await open().get(key)).toEqual({ a: 1 });
  });

  test("one of many concurrent inserts wins", async () => {
    const key = fresh();
    const won = await Promise.all(Array.from({ length: 20 }, (_, i) => open().insert(key, { i })));
    expect(won.filter(Boolean)).toHaveLength(1);
    expect(await open().get(key)).toEqual({ i: won.indexOf(true) });
  });

  test("an update sets, adds and removes, and returns the item after it", async () => {
    const key = await inserted({ state: "open", claims: { "0": "w1", "1": "w2" }, counter: 1 });
    const result = await open().update({
      key,
      set: [
        [["rollouts"], {}],
        [["claims", "2"], { who: "w3", at: undefined }],
      ],
      add: [
        [["counter"], 2],
        [["fence"], 1],
      ],
      remove: [["claims", "0"], ["nothing"]],
      when: [{ equals: [["state"], "open"] }],
    });
    const after = { state: "open", claims: { "1": "w2", "2": { who: "w3" } }, counter: 3, fence: 1, rollouts: {} };
    expect(result).toEqual({ applied: true, item: after });
    expect(await open().get(key)).toEqual(after);
  });

  test("an update whose condition fails returns the item as it stands", async () => {
    const key = await inserted({ state: "sealed" });
    const change = { key, set: [[["x"], 1] as const], when: [{ equals: [["state"], "open"] as const }] };
    expect(await open().update(change)).toEqual({ applied: false, item: { state: "sealed" } });
    expect(await open().get(key)).toEqual({ state: "sealed" });
  });

  test("an update never makes an item", async () => {
    const key = fresh();
    expect(await open().update({ key, set: [[["x"], 1]], when: [{ absent: ["x"] }] })).toEqual({
      applied: false,
      item: undefined,
    });
    expect(await open().get(key)).toBeUndefined();
  });

  const ITEM = { s: "a", n: 1, none: null, map: { "x.y": "a", list: [1, { b: 2 }] } };
  test.each([
    ["exists", { exists: ["map", "x.y"] }, true],
    ["exists, null", { exists: ["none"] }, true],
    ["exists, not", { exists: ["map", "z"] }, false],
    ["exists below a string, not", { exists: ["s", "z"] }, false],
    ["absent", { absent: ["map", "z"] }, true],
    ["absent below what is not there", { absent: ["q", "z"] }, true],
    ["absent, not", { absent: ["s"] }, false],
    ["equals", { equals: [["map", "x.y"], "a"] }, true],
    ["equals, not", { equals: [["n"], 2] }, false],
    ["equals, another type", { equals: [["n"], "1"] }, false],
    ["equals, absent", { equals: [["z"], "a"] }, false],
    ["absentOrEquals, equal", { absentOrEquals: [["s"], "a"] }, true],
    ["absentOrEquals, absent", { absentOrEquals: [["map", "z"], "a"] }, true],
    ["absentOrEquals, not", { absentOrEquals: [["s"], "b"] }, false],
  ] as const)("condition: %s", async (_name, condition, applied) => {
    const key = await inserted(ITEM);
    expect((await open().update({ key, set: [[["done"], 1]], when: [condition] })).applied).toBe(applied);
    expect((await open().get(key))?.["done"]).toBe(applied ? 1 : undefined);
  });

  test("all conditions of a change must hold", async () => {
    const key = await inserted(ITEM);
    const when = [{ equals: [["s"], "a"] }, { equals: [["n"], 2] }] as const;
    expect((await open().update({ key, set: [[["done"], 1]], when })).applied).toBe(false);
  });

  test("no update is lost, and one of those that exclude each other wins", async () => {
    const key = await inserted({ n: 0, rollouts: {} });
    const results = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        open().update({
          key,
          set: [[["rollouts", String(i % 4)], i]],
          add: [[["n"], 1]],
          when: [{ absent: ["rollouts", String(i % 4)] }],
        }),
      ),
    );
    expect(results.filter((result) => result.applied)).toHaveLength(4);
    expect((await open().get(key))?.["n"]).toBe(4);
  });

  test("a path through a map that is not there is refused, and so is a number that JSON has not", async () => {
    const key = await inserted({ a: 1 });
    const refused = { code: "record-damaged", retryable: false };
    await expect(open().update({ key, set: [[["m", "x"], 1]], when: [] })).rejects.toMatchObject(refused);
    await expect(open().insert(fresh(), { a: Number.NaN })).rejects.toMatchObject(refused);
    expect(await open().get(key)).toEqual({ a: 1 });
  });

  test("a query lists a partition by prefix in order, however long the list", async () => {
    const { pk } = fresh();
    const text = "x".repeat(60_000);
    const order = [9, 3, 25, 1, 14, 7, 30, 2, 21, 11, 5, 18, 28, 16, 8, 23, 4, 12, 20, 6];
    for (const n of order) await open().insert({ pk, sk: `STEP#${String(n).padStart(3, "0")}` }, { n, text });
    await open().insert({ pk, sk: "AGENT#main" }, { n: -1 });
    await open().insert({ pk: `${pk}x`, sk: "STEP#000" }, { n: -2 });
    const items = await open().query(pk, "STEP#");
    expect(items.map((item) => item["n"])).toEqual([...order].sort((a, b) => a - b));
    expect(await open().query(pk, "JOB#")).toEqual([]);
  });
}
