/** @file A run in a store, as the dashboard reads it: again and again. */
import { expect, test, vi } from "vitest";
import { readStored } from "../../cli/show/source.ts";
import { objectKeys } from "../../core/contracts/keys.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { config, fillFinishedRun, RUN } from "./records.ts";

test("if the bucket lacks the config of a run that the table has, the error says so", async () => {
  const store = memoryStore();
  await fillFinishedRun(store);
  await expect(readStored(store, RUN)).rejects.toMatchObject({
    code: "not-found",
    message: expect.stringMatching(
      /config\.json is missing from the bucket, but the table has the run: check MGRPO_BUCKET/,
    ),
  });
  await expect(readStored(store, "other")).rejects.toThrow(/^no run 'other' here or in the store/);
});

test("the run's config is read once, and its record each time", async () => {
  const store = memoryStore();
  await fillFinishedRun(store);
  await store.objects.commit(objectKeys.config(RUN), new TextEncoder().encode(JSON.stringify(config)));
  const reads = vi.spyOn(store.objects, "get");
  const records = vi.spyOn(store.table, "get");
  for (let poll = 0; poll < 3; poll++)
    expect(await readStored(store, RUN)).toMatchObject({ config, record: { run: RUN, status: "finished" } });
  expect(reads.mock.calls).toEqual([[objectKeys.config(RUN)]]);
  expect(records.mock.calls).toHaveLength(3);
});
