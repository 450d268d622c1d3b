/** @file When a worker may begin a step's conversations, and which invocations a sub-agent's worker accepts, holds or refuses. */
import { getEventListeners } from "node:events";
import { beforeEach, describe, expect, test } from "vitest";
import { tableKeys } from "../../core/contracts/keys.ts";
import type { StepRecord } from "../../core/contracts/records.ts";
import type { InvocationRequest } from "../../core/contracts/rollout.ts";
import type { TableValue } from "../../core/ports.ts";
import { admissionRules } from "../../gpu-workers/invocations/admission.ts";
import { stepsToSample, whenOpen } from "../../gpu-workers/liveness/opening.ts";
import { type StepWatch, watchSteps } from "../../gpu-workers/liveness/watch.ts";
import type { RunContext } from "../../gpu-workers/run-context.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { runRecord } from "../fakes/scripted-team.ts";

const name = "test";
let store: ReturnType<typeof memoryStore>;
let run: RunContext;

beforeEach(async () => {
  store = memoryStore();
  run = { name, store, config: { staleness: 0, liveness: { pollSeconds: 0.2 } } } as unknown as RunContext;
  await store.table.insert(tableKeys.run(name), runRecord({ run: name, step: 0 }));
  await plan(0);
});

async function plan(step: number, version = step) {
  const record: StepRecord = {
    run: name,
    step,
    state: "open",
    groups: ["q"],
    round: 0,
    trained: ["main"],
    sampledBefore: 0,
    policy: { main: version, searcher: 0 },
    sampledTokens: 0,
    curriculum: { stage: 0, drawn: [] },
  };
  await store.table.insert(tableKeys.step(name, step), { ...record });
}

const change = (key: { pk: string; sk: string }, path: string, value: TableValue) =>
  store.table.update({ key, set: [[[path], value]], when: [] });
const setState = (step: number, to: StepRecord["state"]) => change(tableKeys.step(name, step), "state", to);
const moveRun = (step: number) => change(tableKeys.run(name), "step", step);
/** The steps to sample now. */
const sampled = async (watch: StepWatch) => stepsToSample(await watch.refresh()).map(({ step }) => step);
/** The same run, with a staleness of 1. */
const pipelined = (): RunContext => ({ ...run, config: { ...run.config, staleness: 1 } });
const never = new AbortController().signal;
const isPending = async (promise: Promise<unknown>) =>
  (await Promise.race([promise, new Promise((resolve) => setTimeout(resolve, 20, "pending"))])) === "pending";

const request = (step: number, version = step): InvocationRequest => ({
  address: { run: name, phase: "train", step, group: 0, rollout: 0 },
  questionId: "q",
  agent: "main",
  version,
  call: 0,
  task: "look",
  closedBook: false,
  sampling: { temperature: 1, topP: 1, topK: 0 },
});

describe("the steps to sample", () => {
  test("are the run's step while that is open, then the next one once it is planned and this worker can serve its version", async () => {
    const watch = watchSteps(run, "main");
    expect(await sampled(watch)).toEqual([0]);
    await setState(0, "ready");
    watch.markServable(1);
    expect(await sampled(watch)).toEqual([]);
    await plan(1);
    expect(await sampled(watch)).toEqual([1]);
    await setState(0, "closed");
    expect(await sampled(watch)).toEqual([1]);
    await moveRun(1);
    expect(await sampled(watch)).toEqual([1]);
    await setState(1, "ready");
    await plan(2);
    expect(await sampled(watch)).toEqual([]);
  });

  test("change as soon as the version is servable, without a read", async () => {
    await setState(0, "ready");
    await plan(1);
    const watch = watchSteps(run, "main");
    await watch.refresh();
    const begins = watch.until((seen) => stepsToSample(seen)[0], never);
    expect(await isPending(begins)).toBe(true);
    watch.markServable(1);
    expect(await begins).toMatchObject({ step: 1 });
  });

  test("are the next one at once for an untrained agent; without an agent, or in a halted run, there are none", async () => {
    await setState(0, "ready");
    await plan(1);
    expect(await sampled(watchSteps(run, "searcher"))).toEqual([1]);
    expect(await sampled(watchSteps(run))).toEqual([]);
    await change(tableKeys.run(name), "status", "halted");
    expect(await sampled(watchSteps(run, "searcher"))).toEqual([]);
  });
});

describe("with a staleness of 1", () => {
  test("the run's step and the next one are sampled concurrently, and the one after as soon as this worker has its version", async () => {
    await plan(1, 0);
    const watch = watchSteps(pipelined(), "main");
    expect(await sampled(watch)).toEqual([0, 1]);
    await setState(1, "ready");
    expect(await sampled(watch)).toEqual([0]);
    await setState(1, "open");
    await setState(0, "ready");
    await plan(2, 1);
    expect(await sampled(watch)).toEqual([1]);
    watch.markServable(1);
    expect(await sampled(watch)).toEqual([1, 2]);
    await moveRun(1);
    expect(await sampled(watch)).toEqual([1, 2]);
  });

  test("a step's time limits start once its versions are published; invocations are accepted from one step before that until the step is ready", async () => {
    await plan(1, 0);
    const watch = watchSteps(pipelined(), "main");
    await watch.refresh();
    await whenOpen(watch, 1, 1, never);
    const third = whenOpen(watch, 2, 1, never);
    expect(await isPending(third)).toBe(true);
    const { admits, whenReady } = admissionRules(pipelined(), "main", watch);
    await whenReady(request(1, 0), never);
    expect(await admits(request(1, 1))).toBe(false);
    expect(await admits(request(2, 1))).toBe(true);
    expect(await admits(request(3, 2))).toBe(false);
    await setState(0, "ready");
    await setState(1, "ready");
    await watch.refresh();
    expect(await admits(request(1, 0))).toBe(false);
    await plan(2, 1);
    await moveRun(1);
    await watch.refresh();
    await third;
  });
});

describe("the watch", () => {
  test("does not go back when reads complete out of order", async () => {
    const { table } = store;
    let answer = () => {};
    const held = new Promise<void>((resolve) => {
      answer = resolve;
    });
    let reads = 0;
    const slow: typeof table = {
      ...table,
      async getAll(keys) {
        const found = await table.getAll(keys);
        if (reads++ === 0) await held;
        return found;
      },
    };
    const watch = watchSteps({ ...run, store: { ...store, table: slow } }, "main");
    const first = watch.refresh();
    await setState(0, "ready");
    expect((await watch.refresh()).step?.state).toBe("ready");
    answer();
    expect((await first).step?.state).toBe("ready");
    expect(watch.current()?.step?.state).toBe("ready");
  });

  test("leaves no listener on the signal of a wait that has ended: a worker waits on one signal again and again, for weeks", async () => {
    const watch = watchSteps(run, "main");
    const { signal } = new AbortController();
    const found = watch.until(({ run: { step } }) => step === 0 || undefined, signal);
    const paused = watch.pause(60, ({ run: { step } }) => step === 0 || undefined, signal);
    expect(getEventListeners(signal, "abort")).not.toEqual([]);
    await watch.refresh();
    await Promise.all([found, paused]);
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });

  test("`whenOpen` resolves when the run reaches the step", async () => {
    const watch = watchSteps(run, "main");
    await watch.refresh();
    const opened = whenOpen(watch, 1, 0, never);
    expect(await isPending(opened)).toBe(true);
    await plan(1);
    await moveRun(1);
    await watch.refresh();
    await opened;
  });
});

describe("an invocation", () => {
  test("for the open step begins at once; one for the next step is accepted and waits for its version", async () => {
    const watch = watchSteps(run, "main");
    const { admits, whenReady } = admissionRules(run, "main", watch);
    expect(await admits(request(0))).toBe(true);
    await whenReady(request(0), never);
    expect(await admits(request(1))).toBe(true);
    const ready = whenReady(request(1), never);
    await setState(0, "ready");
    await plan(1);
    await watch.refresh();
    expect(await isPending(ready)).toBe(true);
    watch.markServable(1);
    await ready;
  });

  test("for a step that is past or too far ahead, or for another version, run or phase, is refused", async () => {
    await setState(0, "closed");
    await plan(1);
    await moveRun(1);
    const { admits, whenReady } = admissionRules(run, "main", watchSteps(run, "main"));
    for (const refused of [request(0), request(1, 0), request(3)]) expect(await admits(refused)).toBe(false);
    for (const address of [{ run: "other" }, { phase: "eval" as const }]) {
      const valid = request(1);
      expect(await admits({ ...valid, address: { ...valid.address, ...address } })).toBe(false);
    }
    await expect(whenReady(request(0), never)).rejects.toMatchObject({ code: "step-closed" });
  });

  test("that waits is refused when its step pins another version; the wait ends when its caller aborts", async () => {
    const watch = watchSteps(run, "main");
    const { admits, whenReady } = admissionRules(run, "main", watch);
    expect(await admits(request(1, 5))).toBe(true);
    const ready = whenReady(request(1, 5), never);
    const caller = new AbortController();
    const canceled = whenReady(request(1), caller.signal);
    caller.abort();
    await expect(canceled).rejects.toMatchObject({ code: "canceled" });
    await plan(1);
    await moveRun(1);
    await watch.refresh();
    await expect(ready).rejects.toMatchObject({ code: "step-closed" });
  });
});
