/** @file The conditional writes of evaluation jobs obey the laws of write-laws.ts. */
import { tableKeys } from "../../../core/contracts/keys.ts";
import type { EvaluationScore, JobRecord } from "../../../core/contracts/records.ts";
import type { TableItem } from "../../../core/ports.ts";
import { finishJob, leaseJob, releaseJob, reopenJob } from "../../../core/training/job-writes.ts";
import { checkLaws } from "./write-laws.ts";

const queued: JobRecord = {
  ...{ run: "r", job: "j", team: 2, suite: "test", state: "queued", owner: "", fence: 3 },
  ...{ n: 0, correct: 0, runs: [], interval: { low: 0, high: 1 } },
};
const leased: JobRecord = { ...queued, state: "leased", owner: "w1" };
const suspects = { "4/1": 2 };
const score: EvaluationScore = {
  ...{ n: 8, correct: 6, interval: { low: 0.4, high: 0.9 } },
  runs: [
    { n: 4, correct: 2 },
    { n: 4, correct: 4 },
  ],
};
const key = tableKeys.job("r", "j");
const item = (record: JobRecord): TableItem => record as unknown as TableItem;

checkLaws({
  "leaseJob, from the queue": {
    change: () => leaseJob(queued, "w1"),
    ...{ key, before: item(queued), after: { state: "leased", owner: "w1", fence: 4 }, repeat: "is refused" },
    refusedWith: [{ state: "leased" }, { state: "done" }, { fence: 4 }],
  },
  "leaseJob, from a dead owner": {
    change: () => leaseJob(leased, "w2"),
    ...{ key, before: item(leased), after: { owner: "w2", fence: 4 }, repeat: "is refused" },
    refusedWith: [{ state: "queued" }, { state: "done" }, { fence: 2 }],
  },
  "leaseJob, with suspects": {
    change: () => leaseJob(leased, "w2", suspects),
    ...{ key, before: item(leased), after: { owner: "w2", fence: 4, suspects }, repeat: "is refused" },
    refusedWith: [{ fence: 2 }],
  },
  "leaseJob, without suspects: earlier ones stay": {
    change: () => leaseJob({ ...leased, suspects }, "w2", {}),
    ...{ key, before: item({ ...leased, suspects }), after: { owner: "w2", fence: 4 }, repeat: "is refused" },
    refusedWith: [{ fence: 2 }],
  },
  "releaseJob, with suspects": {
    change: () => releaseJob(leased, "w1", suspects),
    ...{ key, before: item(leased), after: { state: "queued", owner: "", suspects }, repeat: "is refused" },
    refusedWith: [{ owner: "w2" }],
  },
  releaseJob: {
    change: () => releaseJob(leased, "w1"),
    ...{ key, before: item(leased), after: { state: "queued", owner: "" }, repeat: "is refused" },
    refusedWith: [{ state: "queued" }, { state: "done" }, { owner: "w2" }],
  },
  finishJob: {
    // Other properties of a result are not part of the record.
    change: () => finishJob(leased, { ...score, seconds: 9 } as EvaluationScore),
    ...{ key, before: item({ ...leased, suspects }), after: { state: "done", ...score, suspects: undefined } },
    repeat: "is refused",
    refusedWith: [{ state: "queued" }, { state: "done" }],
  },
  reopenJob: {
    change: () => reopenJob({ ...leased, state: "done" }),
    ...{ key, before: item({ ...leased, state: "done" }), after: { state: "queued", owner: "" }, repeat: "is refused" },
    refusedWith: [{ state: "leased" }, { state: "queued" }, { fence: 4 }],
  },
});
