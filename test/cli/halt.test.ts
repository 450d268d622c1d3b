/** @file `mgrpo halt` of a finished run whose records cannot be read: it ends the evaluations that are left, so that ticks archive the run. */
import { afterAll, expect, test } from "vitest";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import type { JobRecord, RunRecord } from "../../core/contracts/records.ts";
import { accuracyInterval } from "../../core/training/confidence-interval.ts";
import { openLocalStore } from "../fakes/local-store.ts";
import { printedJson } from "./printed.ts";

const store = await openLocalStore();
afterAll(() => store.close());

const DONE = { kind: "unchanged", status: "finished", reason: "" };
const HALTED = { kind: "halted", status: "halted", reason: "halted by its user; launch it again to resume" };

test.each<[name: string, job: Partial<JobRecord> & { of?: string }, printed: object]>([
  ["queued", { state: "queued" }, HALTED],
  ["damaged", { of: "another release" }, HALTED],
  ["done", { state: "done" }, DONE],
])("a finished run of another release is halted unless its evaluation is done: %s", async (run, job, expected) => {
  const record: RunRecord = {
    ...{ run, status: "finished", reason: "", step: 1, configSha256: "0".repeat(64), questionsSha256: "0".repeat(64) },
    ...{ startedAt: 1, maxHours: null, maxUsd: null },
  };
  const queued: JobRecord = {
    ...{ run, job: "test-1", team: 1, suite: "test", state: "queued", owner: "", fence: 0, n: 0, correct: 0, runs: [] },
    interval: accuracyInterval([]),
  };
  await store.table.insert(tableKeys.run(run), { ...record, of: "another release" });
  await store.table.insert(tableKeys.job(run, queued.job), { ...queued, ...job });
  await store.objects.commit(objectKeys.config(run), new TextEncoder().encode('{"of":"another release"}'));
  expect(await printedJson("halt", run)).toEqual([{ ...expected, run }]);
});
