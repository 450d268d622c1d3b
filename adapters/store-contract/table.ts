/** @file The contract of every Table, and so of the DynamoDB API beneath it. */
import { deepEqual, equal } from "node:assert/strict";
import { ITEM_BYTES } from "../../core/contracts/bounds.ts";
import type { Table, TableCondition, TableItem } from "../../core/ports.ts";
import { claimRollouts } from "../../core/training/writes.ts";
import type { ContractCheck, FreshKeys } from "./check.ts";

const WRITERS = 20;
/** More keys than a batch of 100. */
const BEYOND_A_BATCH = 120;
/** Twenty items of this size are together more than a page of 1 MB. */
const LARGE_ITEM_BYTES = 60_000;
const SHUFFLED = [9, 3, 25, 1, 14, 7, 30, 2, 21, 11, 5, 18, 28, 16, 8, 23, 4, 12, 20, 6];

const ITEM = { s: "a", n: 1, none: null, map: { "x.y": "a", list: [1, { b: 2 }] } };
const CONDITIONS: readonly (readonly [name: string, condition: TableCondition, applied: boolean])[] = [
  ["exists", { exists: ["map", "x.y"] }, true],
  ["exists, null", { exists: ["none"] }, true],
  ["exists, fails", { exists: ["map", "z"] }, false],
  ["exists below a string, fails", { exists: ["s", "z"] }, false],
  ["absent", { absent: ["map", "z"] }, true],
  ["absent below a missing map", { absent: ["q", "z"] }, true],
  ["absent, fails", { absent: ["s"] }, false],
  ["equals", { equals: [["map", "x.y"], "a"] }, true],
  ["equals, fails", { equals: [["n"], 2] }, false],
  ["equals, another type, fails", { equals: [["n"], "1"] }, false],
  ["equals, no such field, fails", { equals: [["z"], "a"] }, false],
];

async function insertNew(table: Table, keys: FreshKeys, item: TableItem) {
  const key = keys.tableKey();
  equal(await table.insert(key, item), true);
  return key;
}

export const tableChecks: readonly ContractCheck<Table>[] = [
  {
    name: "an item comes back as written, without its keys",
    async verify(table, keys) {
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
      deepEqual(await table.get(await insertNew(table, keys, item)), item);
      equal(await table.get(keys.tableKey()), undefined);
    },
  },
  {
    name: "several items come back in the requested order, even if a batch cannot hold them all",
    async verify(table, keys) {
      const each = Array.from({ length: BEYOND_A_BATCH }, (_, i) => insertNew(table, keys, { i }));
      const inOrder = await Promise.all(each);
      const requested = [keys.tableKey(), ...inOrder.toReversed(), keys.tableKey()];
      const items = inOrder.map((_, i) => ({ i: inOrder.length - 1 - i }));
      deepEqual(await table.getAll(requested), [undefined, ...items, undefined]);
      deepEqual(await table.getAll([]), []);
    },
  },
  {
    name: "the first insert wins and the second changes nothing",
    async verify(table, keys) {
      const key = await insertNew(table, keys, { a: 1 });
      equal(await table.insert(key, { a: 2 }), false, "a second insert overwrote the first");
      deepEqual(await table.get(key), { a: 1 });
    },
  },
  {
    name: `one of ${WRITERS} concurrent inserts wins`,
    async verify(table, keys) {
      const key = keys.tableKey();
      const won = await Promise.all(Array.from({ length: WRITERS }, (_, i) => table.insert(key, { i })));
      equal(won.filter(Boolean).length, 1, `${won.filter(Boolean).length} writers won`);
      deepEqual(await table.get(key), { i: won.indexOf(true) });
    },
  },
  {
    name: "a read sees every acknowledged write: one item, a batch, a query",
    async verify(table, keys) {
      const key = await insertNew(table, keys, { n: 0 });
      for (let n = 1; n <= WRITERS; n++) {
        await table.update({ key, add: [[["n"], 1]], when: [] });
        deepEqual(await table.get(key), { n });
        deepEqual(await table.getAll([key]), [{ n }]);
        deepEqual(await table.query(key.pk, key.sk), [{ n }]);
      }
    },
  },
  {
    name: "an update sets, adds and removes, and returns the resulting item",
    async verify(table, keys) {
      const key = await insertNew(table, keys, { state: "open", claims: { "0": "w1", "1": "w2" }, counter: 1 });
      const result = await table.update({
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
      deepEqual(result, { applied: true, item: after });
      deepEqual(await table.get(key), after);
    },
  },
  {
    name: "an update whose condition fails returns the item as it stands",
    async verify(table, keys) {
      const key = await insertNew(table, keys, { state: "finalized" });
      const change = { key, set: [[["x"], 1] as const], when: [{ equals: [["state"], "open"] as const }] };
      deepEqual(await table.update(change), { applied: false, item: { state: "finalized" } });
      deepEqual(await table.get(key), { state: "finalized" });
    },
  },
  {
    name: "a missing map is set once",
    async verify(table, keys) {
      const key = await insertNew(table, keys, { state: "open" });
      const begin = { key, set: [[["claims"], { "0": "w1" }] as const], when: [{ absent: ["claims"] }] };
      const item = { state: "open", claims: { "0": "w1" } };
      deepEqual(await table.update(begin), { applied: true, item });
      deepEqual(await table.update(begin), { applied: false, item });
    },
  },
  {
    name: "an update never creates an item",
    async verify(table, keys) {
      const key = keys.tableKey();
      for (const when of [[], [{ absent: ["x"] }], [{ equals: [["x"], 1] as const }]]) {
        const result = await table.update({ key, set: [[["x"], 1]], when });
        deepEqual(result, { applied: false, item: undefined });
      }
      equal(await table.get(key), undefined);
    },
  },
  {
    name: "a deleted item is gone from every read, and a second delete changes nothing",
    async verify(table, keys) {
      const key = await insertNew(table, keys, { n: 1 });
      await table.delete(key);
      equal(await table.get(key), undefined);
      deepEqual(await table.getAll([key]), [undefined]);
      deepEqual(await table.query(key.pk, key.sk), []);
      await table.delete(key);
      equal(await table.insert(key, { n: 2 }), true);
      deepEqual(await table.get(key), { n: 2 });
    },
  },
  ...CONDITIONS.map(([name, condition, applied]) => ({
    name: `condition: ${name}`,
    async verify(table: Table, keys: FreshKeys) {
      const key = await insertNew(table, keys, ITEM);
      equal((await table.update({ key, set: [[["done"], 1]], when: [condition] })).applied, applied);
      equal((await table.get(key))?.["done"], applied ? 1 : undefined);
    },
  })),
  {
    name: "one write claims 50 rollouts, which takes 101 conditions, in an item of nearly 400 KB",
    async verify(table, keys) {
      const text = "x".repeat(ITEM_BYTES - 2048);
      const key = await insertNew(table, keys, { state: "open", claims: {}, rollouts: {}, text });
      const claim = claimRollouts({ run: "r", step: 0, group: 0 }, [...Array(50).keys()], "w");
      equal((await table.update({ ...claim, key })).applied, true);
      equal(Object.keys((await table.get(key))?.["claims"] ?? {}).length, 50);
    },
  },
  {
    name: "all conditions of a change must hold",
    async verify(table, keys) {
      const key = await insertNew(table, keys, ITEM);
      const when = [{ equals: [["s"], "a"] }, { equals: [["n"], 2] }] as const;
      equal((await table.update({ key, set: [[["done"], 1]], when })).applied, false);
    },
  },
  {
    name: "no update is lost, and one of several mutually exclusive updates wins",
    async verify(table, keys) {
      const key = await insertNew(table, keys, { n: 0, rollouts: {} });
      const all = Array.from({ length: WRITERS }, (_, i) =>
        table.update({
          key,
          set: [[["rollouts", String(i % 4)], i]],
          add: [[["n"], 1]],
          when: [{ absent: ["rollouts", String(i % 4)] }],
        }),
      );
      equal((await Promise.all(all)).filter(({ applied }) => applied).length, 4);
      equal((await table.get(key))?.["n"], 4);
    },
  },
  {
    name: "a query lists a partition by prefix, in order, across pages",
    async verify(table, keys) {
      const { pk } = keys.tableKey();
      const text = "x".repeat(LARGE_ITEM_BYTES);
      for (const n of SHUFFLED) await table.insert({ pk, sk: `STEP#${String(n).padStart(3, "0")}` }, { n, text });
      await table.insert({ pk, sk: "AGENT#main" }, { n: -1 });
      await table.insert({ pk: `${pk}x`, sk: "STEP#000" }, { n: -2 });
      const items = await table.query(pk, "STEP#");
      deepEqual(
        items.map((item) => item["n"]),
        [...SHUFFLED].sort((a, b) => a - b),
      );
      deepEqual(await table.query(pk, "JOB#"), []);
    },
  },
];
