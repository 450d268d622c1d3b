/** @file The table's LevelDB: a query leaves no iterator open, since LevelDB deletes no file that an open one may read. */
import { ClassicLevel } from "classic-level";
import { expect, onTestFinished, test, vi } from "vitest";
import { openLocalStore } from "../../fakes/local-store.ts";

test("a query closes its iterator, whether it ends at its last item, at the end of a page, or finds nothing", async () => {
  const store = await openLocalStore();
  onTestFinished(() => store.close());
  const text = "x".repeat(300_000);
  for (let i = 0; i < 8; i++) await store.table.insert({ pk: "large", sk: `item ${i}` }, { text });
  const opened = vi.spyOn(ClassicLevel.prototype, "values");
  onTestFinished(() => opened.mockRestore());
  // 2.4 MB: three pages.
  expect(await store.table.query("large", "item ")).toHaveLength(8);
  expect(await store.table.query("none", "item ")).toEqual([]);
  expect(opened.mock.results.length).toBeGreaterThan(2);
  for (const { value: iterator } of opened.mock.results)
    await vi.waitFor(() => expect(iterator.next()).rejects.toMatchObject({ code: "LEVEL_ITERATOR_NOT_OPEN" }));
});
