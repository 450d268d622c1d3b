/**
 * @file An engine thread that hangs is ended once the time limits of its call have passed (thread.ts). The next call reopens a sampler; a
 * trainer whose state has changed must load its files first. Both then return the same bits as in a thread that never hung.
 */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { EngineOptions, PolicyEngine, SampleRequest } from "../../core/ports.ts";
import { OPTIONS, tinyCheckpoint } from "./tiny.ts";

const BLOCKED = new URL("../fixtures/blocked-engine.mjs", import.meta.url).href;
/** Threads that start after this call are blocked for `seconds` in each graph run. It does not affect threads that already run. */
const block = (seconds: number) =>
  Object.assign(process.env, { NODE_OPTIONS: `--import=${BLOCKED}`, MGRPO_TEST_BLOCK_SECONDS: seconds });
const limited = (turnSeconds: number, trainingSeconds: number): EngineOptions => ({
  ...OPTIONS,
  limits: { turnSeconds, trainingSeconds },
});
const request: SampleRequest = {
  sequence: "s",
  tokens: [1, 2, 3],
  maxTokens: 6,
  stop: [],
  sampling: { temperature: 1, topP: 1, topK: 0 },
  stream: ["s"],
};
const batch = [{ tokens: [1, 2, 3], weights_T: Float32Array.of(0, 1, 1) }];
const files = tinyCheckpoint();

/** From now on, time limits expire only when the test says so, however slow the machine is. */
const stopClock = () => vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });

/** Waits until `calls` time limits are set, then advances the stopped clock. */
async function passSeconds(seconds: number, calls: number) {
  while (vi.getTimerCount() < calls) await new Promise(setImmediate);
  vi.advanceTimersByTime(seconds * 1000);
}

let compiledEngine: PolicyEngine;

beforeEach(async () => {
  // A new instance of the engine starts its own threads, in this test's environment.
  vi.resetModules();
  ({ compiledEngine } = await import("../../engine/compiled/engine.ts"));
});

afterEach(() => {
  vi.useRealTimers();
  for (const name of ["NODE_OPTIONS", "MGRPO_TEST_BLOCK_SECONDS"]) delete process.env[name];
});

test("a thread with a hung sample is ended; the thread's other samples can be retried, and the next sample succeeds", async () => {
  block(3600);
  const sampler = await compiledEngine.openSampler(files, limited(1, 100));
  const neighbor = await compiledEngine.openSampler(files, limited(60, 100));
  stopClock();
  const neighborRejects = expect(neighbor.sample({ ...request, sequence: "n" })).rejects.toMatchObject({
    code: "worker-unavailable",
    retryable: true,
  });
  const rejects = expect(sampler.sample(request)).rejects.toMatchObject({
    code: "deadline",
    message: "the engine did not answer 'sample' within limits.turnSeconds 1",
  });
  // The sample is canceled after one second, and its thread is ended after another.
  await passSeconds(2, 2);
  await Promise.all([rejects, neighborRejects]);
  block(0);
  const unlimited = await compiledEngine.openSampler(files, OPTIONS);
  expect(await sampler.sample(request)).toEqual(await unlimited.sample(request));
  await Promise.all([sampler.close(), neighbor.close(), unlimited.close()]);
});

test("a canceled sample in a hung thread is rejected once the thread is ended", async () => {
  block(3600);
  const sampler = await compiledEngine.openSampler(files, limited(1, 100));
  const cancel = new AbortController();
  const sampling = sampler.sample(request, cancel.signal);
  cancel.abort();
  await expect(sampling).rejects.toMatchObject({
    code: "deadline",
    message: "the engine did not stop a canceled 'sample' within 1 s",
  });
  await sampler.close();
});

test("a thread stops a slow sample at its time limit, and continues with its other samples", async () => {
  block(0.1);
  const sampler = await compiledEngine.openSampler(files, limited(5, 100));
  const patient = await compiledEngine.openSampler(files, limited(100, 100));
  stopClock();
  // A token takes at least one graph run, so 20 tokens take 2 s or more: the long sample is in flight when the slow one is stopped.
  const ends = Promise.allSettled([
    sampler.sample({ ...request, sequence: "slow", maxTokens: 190 }),
    patient.sample({ ...request, sequence: "long", maxTokens: 20 }),
  ]);
  await passSeconds(5, 2);
  const [slow, long] = await ends;
  expect(slow).toMatchObject({ status: "rejected", reason: { code: "deadline" } });
  expect(long).toMatchObject({ status: "fulfilled", value: { tokens: { length: 20 } } });
  expect((await sampler.sample({ ...request, maxTokens: 2 })).tokens).toHaveLength(2);
  await Promise.all([sampler.close(), patient.close()]);
});

test("a hung training call is rejected at its time limit; training continues after the files are loaded again", async () => {
  block(3600);
  const trainer = await compiledEngine.openTrainer(files, limited(60, 100));
  stopClock();
  const pass = () => trainer.forwardBackward(batch, { kind: "linear" }, 1);
  const rejects = expect(pass()).rejects.toMatchObject({
    code: "deadline",
    message: "the engine did not answer 'forwardBackward' within limits.trainingSeconds 100",
  });
  await passSeconds(100, 1);
  await rejects;
  block(0);
  await expect(pass()).rejects.toMatchObject({ code: "replay-failed" });
  await trainer.load(files);
  const fresh = await compiledEngine.openTrainer(files, OPTIONS);
  expect(await pass()).toEqual(await fresh.forwardBackward(batch, { kind: "linear" }, 1));
  await Promise.all([trainer.close(), fresh.close()]);
});
