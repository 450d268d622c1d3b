/** @file Which groups a worker reads again, and when: a part of a large step at a time, each in its turn, none for nothing. */
import { expect, test } from "vitest";
import type { GroupRecord, WorkerRecord } from "../../core/contracts/records.ts";
import { dueViews, type GroupView, inTurn, newGroupView } from "../../gpu-workers/rollouts/group-view.ts";

const LONG_AGO = -100;
const STALE = 50;

/** A group that was read at this moment, with these claims. */
function seen(readAt: number, claims: Record<number, string>, state: GroupRecord["state"] = "open"): GroupView {
  const record = { state, claims, rollouts: {}, crashes: {}, judgeFailures: {} } as Partial<GroupRecord> as GroupRecord;
  return { ...newGroupView(), readAt, record };
}

const due = (views: readonly GroupView[], looksAround: boolean) => {
  const chosen = dueViews([...views.entries()], { me: "me", stale: STALE, looksAround });
  return [...views.keys()].filter((i) => chosen.has(views[i] as GroupView));
};

test("a look around reads where others are at work, and what was never read", () => {
  const views = [
    seen(60, { 0: "other" }),
    seen(60, { 0: "me" }),
    seen(60, {}),
    seen(LONG_AGO, { 0: "other" }, "finalized"),
    newGroupView(),
  ];
  expect(due(views, true)).toEqual([0, 4]);
  expect(due(views, false)).toEqual([]);
});

test("what runs here is read again once it is old, with room for more or without", () => {
  const running = new Map([[0, { controller: new AbortController(), done: Promise.resolve() }]]);
  const views = [seen(49, { 0: "me" }), seen(60, { 0: "me" })].map((view) => ({ ...view, running }));
  expect(due(views, false)).toEqual([0]);
  expect(due(views, true)).toEqual([0]);
});

test("looks around a large step take turns: 16 groups each, the longest unread first", () => {
  const views = Array.from({ length: 40 }, () => seen(60, { 0: "other" }));
  const read = [1, 2, 3].map((look) => {
    const groups = due(views, true);
    for (const group of groups) (views[group] as GroupView).readAt = 60 + look;
    return groups;
  });
  expect(read.slice(0, 2).map((groups) => groups.length)).toEqual([16, 16]);
  expect(new Set(read.flat()).size).toBe(40);
});

test("each worker has groups of its own to begin with, one alone the first ones, and comes by everything once", () => {
  const worker = (name: string, changes: Partial<WorkerRecord> = {}) =>
    ({ worker: name, agent: "main", state: "alive", roles: ["rollout", "train"], ...changes }) as WorkerRecord;
  const groups = [0, 1, 2, 3, 4];
  expect(inTurn("a", "main", [worker("a")], groups)).toEqual(groups);
  expect(inTurn("new", "main", [], groups)).toEqual(groups);
  const others = [
    worker("x", { state: "dead" }),
    worker("y", { agent: "searcher" }),
    worker("z", { roles: ["train"] }),
    worker("c"),
    worker("a"),
  ];
  expect(inTurn("a", "main", others, groups)).toEqual([0, 2, 4, 1, 3]);
  expect(inTurn("c", "main", others, groups)).toEqual([1, 3, 0, 2, 4]);
  // Registered since this process looked.
  expect(inTurn("b", "main", others, groups)).toEqual([1, 4, 2, 0, 3]);
  expect(inTurn("a", "main", others, [])).toEqual([]);
});
