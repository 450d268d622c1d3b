/** @file Which groups a worker rereads, and the order in which it claims them. */
import { expect, test } from "vitest";
import type { GroupRecord, WorkerRecord } from "../../core/contracts/records.ts";
import {
  claimOrder,
  dueViews,
  type LocalGroupView,
  newLocalGroupView,
} from "../../gpu-workers/rollouts/local-group-view.ts";

const LONG_AGO = -100;
const STALE = 50;

/** A group that was read at `readAt`, with these claims. */
function viewOf(readAt: number, claims: Record<number, string>, state: GroupRecord["state"] = "open"): LocalGroupView {
  const record = { state, claims, rollouts: {}, crashes: {} } as Partial<GroupRecord> as GroupRecord;
  return { ...newLocalGroupView(0), readAt, record };
}

const due = (views: readonly LocalGroupView[], isSurvey: boolean) => {
  const chosen = dueViews(views, { me: "me", staleBefore: STALE, isSurvey });
  return [...views.keys()].filter((i) => chosen.has(views[i] as LocalGroupView));
};

test("a survey reads unread groups, and open ones with claims of other workers; otherwise none of them is due", () => {
  const views = [
    viewOf(60, { 0: "other" }),
    viewOf(60, { 0: "me" }),
    viewOf(60, {}),
    viewOf(LONG_AGO, { 0: "other" }, "finalized"),
    newLocalGroupView(4),
  ];
  expect(due(views, true)).toEqual([0, 4]);
  expect(due(views, false)).toEqual([]);
});

test("a stale group whose rollouts run in this worker is reread, in a survey or not", () => {
  const running = new Map([[0, { controller: new AbortController(), done: Promise.resolve() }]]);
  const views = [viewOf(49, { 0: "me" }), viewOf(60, { 0: "me" })].map((view) => ({ ...view, running }));
  expect(due(views, false)).toEqual([0]);
  expect(due(views, true)).toEqual([0]);
});

test("a survey of a large step reads 16 groups, the least recently read first", () => {
  const views = Array.from({ length: 40 }, () => viewOf(60, { 0: "other" }));
  const read = [1, 2, 3].map((survey) => {
    const groups = due(views, true);
    for (const group of groups) (views[group] as LocalGroupView).readAt = 60 + survey;
    return groups;
  });
  expect(read.slice(0, 2).map((groups) => groups.length)).toEqual([16, 16]);
  expect(new Set(read.flat()).size).toBe(40);
});

test("registered workers start with different groups, and each worker reaches every group once; a lone worker starts with the first", () => {
  const worker = (name: string, changes: Partial<WorkerRecord> = {}) =>
    ({ worker: name, agent: "main", state: "alive", roles: ["rollout", "train"], ...changes }) as WorkerRecord;
  const groups = [0, 1, 2, 3, 4];
  expect(claimOrder("a", "main", [worker("a")], groups)).toEqual(groups);
  expect(claimOrder("new", "main", [], groups)).toEqual(groups);
  const others = [
    worker("x", { state: "dead" }),
    worker("y", { agent: "searcher" }),
    worker("z", { roles: ["train"] }),
    worker("c"),
    worker("a"),
  ];
  expect(claimOrder("a", "main", others, groups)).toEqual([0, 2, 4, 1, 3]);
  expect(claimOrder("c", "main", others, groups)).toEqual([1, 3, 0, 2, 4]);
  // A worker that is not in the list, because it registered after the last read.
  expect(claimOrder("b", "main", others, groups)).toEqual([1, 4, 2, 0, 3]);
  expect(claimOrder("a", "main", others, [])).toEqual([]);
});
