/** @file The commands that the reducers return, as data. */
import { expect, test } from "vitest";
import { tableKeys } from "../../../core/contracts/keys.ts";
import type { TableChange } from "../../../core/ports.ts";
import { insert, parallel, type StoreCommand, update } from "../../../core/training/store-commands.ts";

const item = { run: "r" };
const insertion = { key: tableKeys.run("r"), item };
const change: TableChange = { key: tableKeys.run("r"), set: [[["step"], 1]], when: [] };
const score = (key: string): StoreCommand => ({ kind: "score", key });

test("an insert is one command, however many items it has", () => {
  expect(insert(insertion)).toEqual({ kind: "insert", items: [insertion] });
  const second = { key: tableKeys.run("s"), item };
  expect(insert(insertion, second)).toEqual({ kind: "insert", items: [insertion, second] });
});

test("an update has `then` only if commands follow it", () => {
  expect(update(change)).toStrictEqual({ kind: "update", change });
  expect(update(change, [])).toStrictEqual({ kind: "update", change });
  expect(Object.entries(update(change, [score("a")]))).toEqual([
    ["kind", "update"],
    ["change", change],
    ["then", [score("a")]],
  ]);
});

test("only two or more commands become a parallel command", () => {
  expect(parallel([])).toEqual([]);
  expect(parallel([score("a")])).toEqual([score("a")]);
  const both = [score("a"), score("b")];
  expect(parallel(both)).toEqual([{ kind: "parallel", commands: both }]);
});
