/** @file When a step's conversations may begin, as a worker sees it; which invocations a sub-agent's worker takes, holds and refuses. */
import { beforeEach, describe, expect, test } from "vitest";
import { tableKeys } from "../../core/contracts/keys.ts";
import type { RunRecord, StepRecord } from "../../core/contracts/records.ts";
import type { InvocationRequest } from "../../core/contracts/rollout.ts";
import type { TableValue } from "../../core/ports.ts";
import { admission } from "../../gpu-workers/invocations/admission.ts";
import { whenOpen, workable } from "../../gpu-workers/liveness/opening.ts";
import { type StepWatch, watchSteps } from "../../gpu-workers/liveness/watch.ts";
import type { RunContext } from "../../gpu-workers/run-context.ts";
import { memoryStore } from "../fakes/memory-store.ts";

const name = "test";
let store: ReturnType<typeof memoryStore>;
let run: RunContext;

beforeEach(async () => {
  store = memoryStore();
  run = { name, store, config: { liveness: { pollSeconds: 0.2 } } } as unknown as RunContext;
  await store.table.insert(tableKeys.run(name), { ...founded });
  await plan(0);
});

const founded: RunRecord = {
  ...{ run: name, status: "running", reason: "", step: 0, startedAt: 0, maxHours: null, maxUsd: null },
  ...{ configSha256: "0".repeat(64), questionsSha256: "0".repeat(64) },
};

async function plan(step: number) {
  const record: StepRecord = {
    ...{ run: name, step, state: "open", groups: ["q"], round: 0, trained: ["main"], sampledBefore: 0 },
    ...{ policy: { main: step, searcher: 0 }, sampledTokens: 0, curriculum: { stage: 0, drawn: [] } },
  };
  await store.table.insert(tableKeys.step(name, step), { ...record });
}

const change = (key: { pk: string; sk: string }, path: string, value: TableValue) =>
  store.table.update({ key, set: [[[path], value]], when: [] });
const state = (step: number, to: StepRecord["state"]) => change(tableKeys.step(name, step), "state", to);
const moveRun = (step: number) => change(tableKeys.run(name), "step", step);
const beginning = async (watch: StepWatch) => workable(await watch.refresh())?.step;
const never = new AbortController().signal;
const isPending = async (promise: Promise<unknown>) =>
  (await Promise.race([promise, new Promise((resolve) => setTimeout(resolve, 20, "pending"))])) === "pending";

describe("the step to sample", () => {
  test("is the run's while it is open; then the next one, once it is planned and this worker has its own version", async () => {
    const watch = watchSteps(run, "main");
    expect(await beginning(watch)).toBe(0);
    await state(0, "ready");
    watch.serves(1);
    expect(await beginning(watch)).toBeUndefined();
    await plan(1);
    expect(await beginning(watch)).toBe(1);
    await state(0, "closed");
    expect(await beginning(watch)).toBe(1);
    await moveRun(1);
    expect(await beginning(watch)).toBe(1);
    await state(1, "ready");
    await plan(2);
    expect(await beginning(watch)).toBeUndefined();
  });

  test("comes as soon as the version does, without a look", async () => {
    await state(0, "ready");
    await plan(1);
    const watch = watchSteps(run, "main");
    await watch.refresh();
    const begins = watch.until(workable, never);
    expect(await isPending(begins)).toBe(true);
    watch.serves(1);
    expect(await begins).toMatchObject({ step: 1 });
  });

  test("of an agent that is not trained, is the next one when the run's is sampled; nobody's without an agent, nor in a run that stands", async () => {
    await state(0, "ready");
    await plan(1);
    expect(await beginning(watchSteps(run, "searcher"))).toBe(1);
    expect(await beginning(watchSteps(run))).toBeUndefined();
    await change(tableKeys.run(name), "status", "halted");
    expect(await beginning(watchSteps(run, "searcher"))).toBeUndefined();
  });

  test("does not go back when a look is answered after a later one", async () => {
    const { table } = store;
    let answer = () => {};
    const held = new Promise<void>((resolve) => {
      answer = resolve;
    });
    let looks = 0;
    const slow: typeof table = {
      ...table,
      async getAll(keys) {
        const found = await table.getAll(keys);
        if (looks++ === 0) await held;
        return found;
      },
    };
    const watch = watchSteps({ ...run, store: { ...store, table: slow } }, "main");
    const first = watch.refresh();
    await state(0, "ready");
    expect((await watch.refresh()).step?.state).toBe("ready");
    answer();
    expect((await first).step?.state).toBe("ready");
    expect(watch.current()?.step?.state).toBe("ready");
  });

  test("is open for all when the run is there", async () => {
    const watch = watchSteps(run, "main");
    await watch.refresh();
    const opened = whenOpen(watch, 1, never);
    expect(await isPending(opened)).toBe(true);
    await plan(1);
    await moveRun(1);
    await watch.refresh();
    await opened;
  });
});

describe("an invocation", () => {
  const request = (step: number, version = step): InvocationRequest => ({
    address: { run: name, phase: "train", step, group: 0, rollout: 0 },
    ...{ questionId: "q", agent: "main", version, call: 0, task: "look", closedBook: false },
    sampling: { temperature: 1, topP: 1, topK: 0 },
  });

  test("of the open step begins; of the next one it is taken, and waits for its version", async () => {
    const watch = watchSteps(run, "main");
    const { admits, mayBegin } = admission(run, "main", watch);
    expect(await admits(request(0))).toBe(true);
    await mayBegin(request(0), never);
    expect(await admits(request(1))).toBe(true);
    const begins = mayBegin(request(1), never);
    await state(0, "ready");
    await plan(1);
    await watch.refresh();
    expect(await isPending(begins)).toBe(true);
    watch.serves(1);
    await begins;
  });

  test("of a step that is over, of another version, run or phase is refused", async () => {
    await state(0, "closed");
    await plan(1);
    await moveRun(1);
    const { admits, mayBegin } = admission(run, "main", watchSteps(run, "main"));
    for (const refused of [request(0), request(1, 0), request(3)]) expect(await admits(refused)).toBe(false);
    for (const address of [{ run: "other" }, { phase: "eval" as const }]) {
      const asked = request(1);
      expect(await admits({ ...asked, address: { ...asked.address, ...address } })).toBe(false);
    }
    await expect(mayBegin(request(0), never)).rejects.toMatchObject({ code: "step-closed" });
  });

  test("that waits for a step which is sampled with another version is refused then; nobody's wait outlasts its caller", async () => {
    const watch = watchSteps(run, "main");
    const { admits, mayBegin } = admission(run, "main", watch);
    expect(await admits(request(1, 5))).toBe(true);
    const begins = mayBegin(request(1, 5), never);
    const caller = new AbortController();
    const cancelled = mayBegin(request(1), caller.signal);
    caller.abort();
    await expect(cancelled).rejects.toMatchObject({ code: "cancelled" });
    await plan(1);
    await moveRun(1);
    await watch.refresh();
    await expect(begins).rejects.toMatchObject({ code: "step-closed" });
  });
});
