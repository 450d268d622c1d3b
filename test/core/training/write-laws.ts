/**
 * @file The laws of a conditional write, checked on a table in memory: it changes what it should and nothing else; a repeat is refused,
 * changes nothing, or only increments `counter` again; and it is refused if any of its conditions does not hold or its item does not
 * exist.
 */
import { describe, expect, test } from "vitest";
import type { TableKey } from "../../../core/contracts/keys.ts";
import type { TableChange, TableItem } from "../../../core/ports.ts";
import { memoryTable } from "../../fakes/memory-store.ts";

export interface Law {
  /** Called only inside tests, as mutation testing requires (test/mutation/README.md). */
  readonly change: () => TableChange;
  readonly key: TableKey;
  readonly before: TableItem;
  /** The attributes that the write changes, with their values afterward; undefined: removed. */
  readonly after: Readonly<Record<string, unknown>>;
  readonly repeat: "is refused" | "changes nothing" | "counts again";
  /** Changes to `before`, each of which makes the table refuse the write. */
  readonly refusedWith: readonly TableItem[];
}

export function checkLaws(laws: Readonly<Record<string, Law>>): void {
  describe.each(Object.entries(laws))("%s", (_name, { change, key, before, after, repeat, refusedWith }) => {
    test("changes what it should, and nothing else", async () => {
      const table = await tableWith(key, before);
      const expected = { ...before, ...after };
      expect(await table.update(change())).toEqual({ applied: true, item: expected });
      const again = await table.update(change());
      expect(again.applied).toBe(repeat !== "is refused");
      const counted = { ...expected, counter: Number(after["counter"]) + 1 };
      expect(again.item).toEqual(repeat === "counts again" ? counted : expected);
    });

    test.each(refusedWith)("is refused with %j", async (attributes) => {
      const record = { ...before, ...attributes };
      const table = await tableWith(key, record);
      expect(await table.update(change())).toEqual({ applied: false, item: record });
    });

    test("is refused if its item does not exist", async () => {
      expect(await memoryTable().update(change())).toEqual({ applied: false, item: undefined });
    });
  });
}

async function tableWith(key: TableKey, record: TableItem) {
  const table = memoryTable();
  await table.insert(key, record);
  return table;
}
