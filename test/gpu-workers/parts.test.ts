/**
 * @file A batch in parts, as its groups are finalized: which group is in which part, and in which order, follows from the step alone; a part
 * comes as soon as it can; whatever becomes of the step meanwhile, nobody waits for what will not come. The store is in memory, and the
 * watch is moved by hand.
 */
import { setImmediate as turn } from "node:timers/promises";
import { expect, test } from "vitest";
import { tableKeys } from "../../core/contracts/keys.ts";
import type { GroupRecord, RunRecord, StepRecord } from "../../core/contracts/records.ts";
import type { TableValue } from "../../core/ports.ts";
import type { Seen } from "../../gpu-workers/liveness/watch.ts";
import type { Run } from "../../gpu-workers/run.ts";
import { batchParts } from "../../gpu-workers/training/parts.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { teamConfig } from "../fakes/scripted-team.ts";

const DYNAMIC = { dynamicSampling: { rounds: 2 } };

/** A step of so many groups, of which one test decides when each is finalized. */
function world(count: number, changes: Parameters<typeof teamConfig>[0] = {}) {
  const store = memoryStore();
  const config = teamConfig({ questionsPerStep: count, ...changes });
  const run: Pick<Run, "name" | "config" | "store"> = { name: "test", config, store };
  const waiting = new Set<() => void>();
  const names = (n: number) => Array.from({ length: n }, (_, g) => `q${g}`);
  const step = {
    run: "test",
    step: 3,
    state: "open",
    groups: names(count),
    policy: { main: 3 },
  } as Partial<StepRecord>;
  let seen = {
    run: { status: "running" } as RunRecord,
    step: step as StepRecord | undefined,
    next: undefined,
  } satisfies Seen;
  const wake = async () => {
    for (const go of [...waiting]) go();
    for (let i = 0; i < 20; i++) await turn();
  };
  const stop = new AbortController();
  const source = {
    run: run as Run,
    agent: "main",
    watch: {
      current: () => seen,
      pause: (_seconds: number, _pick: unknown, signal: AbortSignal) =>
        new Promise<void>((resolve) => {
          waiting.add(resolve);
          signal.addEventListener("abort", () => resolve(), { once: true });
        }).finally(() => waiting.clear()),
    },
    trajectories: {
      recall: (_step: number, key: string) => ({
        agent: "main",
        version: 3,
        tokens: [],
        actions: [],
        logProbs: [],
        key,
      }),
    },
  } as unknown as Parameters<typeof batchParts>[0];
  const record = (group: number, state: "open" | "finalized", std: number): GroupRecord => ({
    ...{
      run: "test",
      step: 3,
      group,
      questionId: `q${group}`,
      rolloutsPerQuestion: 3,
      state,
      crashes: {},
      judgeFailures: {},
    },
    rollouts: { 0: { reward: 1, correct: 1, wellFormed: true, invocations: {}, tokens: 1, digest: "d".repeat(22) } },
    finalized:
      state === "open"
        ? {}
        : { main: { trajectories: [0], weights: [1], advantages: [std], mean: 0, std, duplicated: 0, dropped: 0 } },
  });
  return {
    stop,
    parts: () => batchParts(source, step as StepRecord, stop.signal),
    insert: (...groups: number[]) =>
      Promise.all(groups.map((g) => store.table.insert(tableKeys.group("test", 3, g), record(g, "open", 1)))),
    async finalize(group: number, std = 1) {
      const { state, finalized } = record(group, "finalized", std);
      const key = tableKeys.group("test", 3, group);
      await store.table.insert(key, record(group, "open", std));
      const set = [
        [["state"], state],
        [["finalized"], finalized as unknown as TableValue],
      ] as const;
      await store.table.update({ key, set, when: [] });
      await wake();
    },
    async move(to: { status?: RunRecord["status"]; state?: StepRecord["state"]; groups?: number; step?: number }) {
      const { status = seen.run.status, state = seen.step?.state ?? "open", groups, step: number = 3 } = to;
      const grown = groups === undefined ? seen.step?.groups : names(groups);
      seen = {
        run: { ...seen.run, status },
        step: { ...seen.step, step: number, state, groups: grown } as StepRecord,
        next: undefined,
      };
      await wake();
    },
  };
}

/** What has come so far, as indices of groups. */
function reading(parts: ReturnType<ReturnType<typeof world>["parts"]>) {
  const got: number[][] = [];
  const over = (async () => {
    for await (const part of parts) got.push(part.map(({ group }) => group));
  })();
  over.catch(() => {});
  return { got, over };
}

test("four groups make a part, in the order of their index, whoever is finalized first; the last may be short", async () => {
  const { insert, finalize, move, parts } = world(10);
  await insert(...Array(10).keys());
  const { got, over } = reading(parts());
  for (const group of [9, 8, 7, 6, 5, 4, 3, 2, 1]) await finalize(group);
  expect(got).toEqual([]);
  await finalize(0);
  expect(got).toEqual([
    [0, 1, 2, 3],
    [4, 5, 6, 7],
  ]);
  await move({ state: "ready" });
  await over;
  expect(got.slice(2)).toEqual([[8, 9]]);
});

test("while a step is open, a group that is not there yet is one that is not finalized; in a ready step it is damage", async () => {
  const { finalize, insert, move, parts } = world(4);
  const { got, over } = reading(parts());
  for (const group of [0, 1, 3]) await finalize(group);
  expect(got).toEqual([]);
  await insert(2);
  await move({ state: "ready" });
  await expect(over).rejects.toMatchObject({ code: "record-damaged", message: expect.stringContaining("GROUP 3/2") });
});

test("dynamic sampling fills the last part up, and leaves out groups without variance", async () => {
  const { finalize, move, parts } = world(6, DYNAMIC);
  const { got, over } = reading(parts());
  for (const group of [0, 1, 2, 3, 4, 5]) await finalize(group, group % 2);
  expect(got).toEqual([[1, 3]]);
  await move({ groups: 9 });
  for (const group of [6, 7, 8]) await finalize(group);
  expect(got.slice(1)).toEqual([[5, 6, 7]]);
  await move({ state: "ready" });
  await over;
  expect(got.slice(2)).toEqual([[8]]);
});

test("of a step without any variance all groups come, at its end", async () => {
  const { finalize, move, parts } = world(5, DYNAMIC);
  const { got, over } = reading(parts());
  for (const group of Array(5).keys()) await finalize(group, 0);
  await move({ state: "ready" });
  await over;
  expect(got).toEqual([[], [], [0, 1, 2, 3, 4]]);
});

test("a worker that drains gives up an open step, and ends a ready one", async () => {
  const open = world(8);
  const waiting = reading(open.parts());
  for (const group of [0, 1, 2, 3]) await open.finalize(group);
  open.stop.abort();
  await expect(waiting.over).rejects.toMatchObject({ code: "cancelled" });
  for (const group of [4, 5, 6, 7]) await open.finalize(group);
  const late = reading(open.parts());
  await expect(late.over).rejects.toMatchObject({ code: "cancelled" });
  expect(late.got).toEqual([]);
  const ready = world(8);
  for (const group of Array(8).keys()) await ready.finalize(group);
  await ready.move({ state: "ready" });
  ready.stop.abort();
  const { got, over } = reading(ready.parts());
  await over;
  expect(got.flat()).toEqual([...Array(8).keys()]);
});

test.each([{ state: "closed" }, { step: 4 }] as const)("a step that another closed is given up: %o", async (moved) => {
  const { finalize, move, parts } = world(8);
  const { over } = reading(parts());
  for (const group of [0, 1, 2, 3]) await finalize(group);
  await move(moved);
  await expect(over).rejects.toMatchObject({ code: "step-closed" });
});

test("a halted run is not trained on; resumed, it is gone on with", async () => {
  const { finalize, move, parts } = world(4);
  const { got, over } = reading(parts());
  await move({ status: "halted" });
  for (const group of [0, 1, 2, 3]) await finalize(group);
  await move({ state: "ready" });
  expect(got).toEqual([]);
  await move({ status: "running" });
  await over;
  expect(got).toEqual([[0, 1, 2, 3]]);
});

test("whoever takes no more parts leaves nothing behind that waits", async () => {
  const { finalize, parts } = world(8);
  for (const group of [0, 1, 2, 3]) await finalize(group);
  const failed = (async () => {
    for await (const _part of parts()) throw new Error("the engine failed");
  })();
  await expect(failed).rejects.toThrow("the engine failed");
});
