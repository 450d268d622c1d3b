/**
 * @file A batch in parts, as its groups are finalized. Which group is in which part follows from the step alone, a part arrives as soon as it
 * can, and no reader waits for a part that will not come. The store is in memory; the test moves the watch by hand.
 */
import { setImmediate as turn } from "node:timers/promises";
import { expect, test } from "vitest";
import { tableKeys } from "../../core/contracts/keys.ts";
import type { GroupRecord, RunRecord, StepRecord } from "../../core/contracts/records.ts";
import type { TableValue } from "../../core/ports.ts";
import type { RunSnapshot } from "../../gpu-workers/liveness/watch.ts";
import type { RunContext } from "../../gpu-workers/run-context.ts";
import { batchParts, type PartsSource } from "../../gpu-workers/training/parts.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { teamConfig } from "../fakes/scripted-team.ts";

const DYNAMIC = { dynamicSampling: { rounds: 2 } };

const groupNames = (count: number) => Array.from({ length: count }, (_, g) => `q${g}`);

/** A watch whose snapshot the test sets. `pause` ends only when the test wakes it or its signal aborts. */
class ManualWatch {
  snapshot: RunSnapshot;
  readonly #waiting = new Set<() => void>();

  constructor(step: StepRecord) {
    this.snapshot = { run: { status: "running" } as RunRecord, step, steps: [step], samplable: [] };
  }

  current = () => this.snapshot;

  pause = (_seconds: number, _pick: unknown, signal: AbortSignal) =>
    new Promise<void>((resolve) => {
      this.#waiting.add(resolve);
      signal.addEventListener("abort", () => resolve(), { once: true });
    }).finally(() => this.#waiting.clear());

  /** Pauses that have not ended. */
  get waiting() {
    return this.#waiting.size;
  }

  /** Ends all pauses, and gives the code under test time to react. */
  async wake() {
    for (const resolve of [...this.#waiting]) resolve();
    await settle();
  }
}

async function settle() {
  for (let i = 0; i < 20; i++) await turn();
}

/** Trajectories are served from the cache. */
const trajectoriesOf = (agent: string) => ({
  get: (_step: number, key: string) => [{ agent, version: 3, tokens: [], actions: [], logProbs: [], key }],
});

function groupRecord(group: number, state: "open" | "finalized", std: number, searcherStd = 0): GroupRecord {
  const batch = (std: number) => ({ weights: [1], advantages: [std], mean: 0, std, duplicated: 0, dropped: 0 });
  const main = { trajectories: [0], ...batch(std) };
  const searcher = { trajectories: ["0/0"], ...batch(searcherStd) };
  const invocations = { searcher: [{ id: "i".repeat(22), reward: 1, expert: 1, digest: "d".repeat(22) }] };
  return {
    run: "test",
    step: 3,
    group,
    questionId: `q${group}`,
    rolloutsPerQuestion: 3,
    state,
    crashes: {},
    rollouts: { 0: { reward: 1, correct: 1, wellFormed: true, invocations, tokens: 1, digest: "d".repeat(22) } },
    finalized: state === "open" ? {} : { main, searcher },
  };
}

/** A step of `count` groups; the test decides when each is finalized. */
function world(count: number, changes: Parameters<typeof teamConfig>[0] = {}) {
  const { table, ...store } = memoryStore();
  const config = teamConfig({ questionsPerStep: count, ...changes });
  const run = { name: "test", config, store: { ...store, table } } as Pick<
    RunContext,
    "name" | "config" | "store"
  > as RunContext;
  const first: Partial<StepRecord> = {
    run: "test",
    step: 3,
    state: "open",
    groups: groupNames(count),
    policy: { main: 3, searcher: 3 },
  };
  const step = first as StepRecord;
  const watch = new ManualWatch(step);
  const stop = new AbortController();
  const source = (agent: string) =>
    ({ run, agent, watch, trajectories: trajectoriesOf(agent) }) as unknown as PartsSource;
  const insert = (group: number) => table.insert(tableKeys.group("test", 3, group), groupRecord(group, "open", 1));
  return {
    stop,
    watch,
    parts: (agent = "main") => batchParts(source(agent), step, stop.signal),
    insert: (...groups: number[]) => Promise.all(groups.map(insert)),
    async finalize(group: number, std = 1, searcherStd = 0) {
      await insert(group);
      const { state, finalized } = groupRecord(group, "finalized", std, searcherStd);
      const set = [
        [["state"], state],
        [["finalized"], finalized as unknown as TableValue],
      ] as const;
      await table.update({ key: tableKeys.group("test", 3, group), set, when: [] });
      await watch.wake();
    },
    async move(to: { status?: RunRecord["status"]; state?: StepRecord["state"]; groups?: number; step?: number }) {
      const { run, step: before } = watch.snapshot;
      const { status = run.status, state = before?.state ?? "open", groups, step: number = 3 } = to;
      const names = groups === undefined ? before?.groups : groupNames(groups);
      const after = { ...before, step: number, state, groups: names } as StepRecord;
      watch.snapshot = { run: { ...run, status }, step: after, steps: [after], samplable: [] };
      await watch.wake();
    },
  };
}

/** The parts that have arrived so far, as indices of groups. */
function reading(parts: ReturnType<ReturnType<typeof world>["parts"]>) {
  const got: number[][] = [];
  const over = (async () => {
    for await (const part of parts) got.push(part.map(({ group }) => group));
  })();
  over.catch(() => {});
  return { got, over };
}

test("four groups make a part, in index order whatever order they are finalized in; the last part may be short", async () => {
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

test("an open step waits for a group without a record; in a ready step, a group that is not finalized is damage", async () => {
  const { finalize, insert, move, parts } = world(4);
  const { got, over } = reading(parts());
  for (const group of [0, 1, 3]) await finalize(group);
  expect(got).toEqual([]);
  await insert(2);
  await move({ state: "ready" });
  await expect(over).rejects.toMatchObject({ code: "record-damaged", message: expect.stringContaining("GROUP 3/2") });
});

test("without dynamic sampling, zero-variance groups are in the batch, because the mean is over them too", async () => {
  const { finalize, move, parts } = world(4);
  for (const group of [0, 1, 2, 3]) await finalize(group, group % 2);
  await move({ state: "ready" });
  const { got, over } = reading(parts());
  await over;
  expect(got).toEqual([[0, 1, 2, 3]]);
});

test("with dynamic sampling, each agent's batch has the groups in which its own rewards differ, or all if there are none", async () => {
  const { finalize, move, parts } = world(4, DYNAMIC);
  for (const group of [0, 1, 2, 3]) await finalize(group, group % 2, group === 0 ? 0.24 : 0);
  await move({ state: "ready" });
  const [main, searcher] = [reading(parts("main")), reading(parts("searcher"))];
  await Promise.all([main.over, searcher.over]);
  expect([main.got.flat(), searcher.got.flat()]).toEqual([[1, 3], [0]]);

  const zeroVariance = world(4, DYNAMIC);
  for (const group of [0, 1, 2, 3]) await zeroVariance.finalize(group, 1, 0);
  await zeroVariance.move({ state: "ready" });
  const all = reading(zeroVariance.parts("searcher"));
  await all.over;
  expect(all.got.flat()).toEqual([0, 1, 2, 3]);
});

test("groups that dynamic sampling adds fill up the last part; zero-variance groups are left out", async () => {
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

test("with dynamic sampling, a step without any variance yields all groups at its end", async () => {
  const { finalize, move, parts } = world(5, DYNAMIC);
  const { got, over } = reading(parts());
  for (const group of Array(5).keys()) await finalize(group, 0);
  await move({ state: "ready" });
  await over;
  expect(got).toEqual([[], [], [0, 1, 2, 3, 4]]);
});

test("a draining worker abandons an open step and finishes a ready one", async () => {
  const open = world(8);
  const waiting = reading(open.parts());
  for (const group of [0, 1, 2, 3]) await open.finalize(group);
  open.stop.abort();
  await expect(waiting.over).rejects.toMatchObject({ code: "canceled" });
  for (const group of [4, 5, 6, 7]) await open.finalize(group);
  const late = reading(open.parts());
  await expect(late.over).rejects.toMatchObject({ code: "canceled" });
  expect(late.got).toEqual([]);
  const ready = world(8);
  for (const group of Array(8).keys()) await ready.finalize(group);
  await ready.move({ state: "ready" });
  ready.stop.abort();
  const { got, over } = reading(ready.parts());
  await over;
  expect(got.flat()).toEqual([...Array(8).keys()]);
});

test.each([{ state: "closed" }, { step: 4 }] as const)(
  "a step that another trainer closed is abandoned: %o",
  async (moved) => {
    const { finalize, move, parts } = world(8);
    const { over } = reading(parts());
    for (const group of [0, 1, 2, 3]) await finalize(group);
    await move(moved);
    await expect(over).rejects.toMatchObject({ code: "step-closed" });
  },
);

test("a halted run is not trained; once resumed, it is", async () => {
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

test("a reader that stops early leaves nothing waiting", async () => {
  const { finalize, parts, watch } = world(8);
  for (const group of [0, 1, 2, 3]) await finalize(group);
  const failed = (async () => {
    for await (const _part of parts()) {
      await settle();
      // The second part is read ahead.
      expect(watch.waiting).toBe(1);
      throw new Error("the engine failed");
    }
  })();
  await expect(failed).rejects.toThrow("the engine failed");
  await settle();
  expect(watch.waiting).toBe(0);
});
