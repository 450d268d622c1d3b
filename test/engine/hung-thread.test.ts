/** @file An engine thread that hangs is ended at its limit, and what it had is opened again: the same bits come out. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { EngineOptions, PolicyEngine, SampleRequest } from "../../core/ports.ts";
import { OPTIONS, tinyCheckpoint } from "./tiny.ts";

const BLOCKED = new URL("../fixtures/blocked-engine.mjs", import.meta.url).href;
/** A thread blocks for this long in each run of a graph that it begins; threads that start later read the value again. */
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

let compiledEngine: PolicyEngine;

beforeEach(async () => {
  // Its own threads, which read this test's environment.
  vi.resetModules();
  ({ compiledEngine } = await import("../../engine/compiled/engine.ts"));
});

afterEach(() => {
  for (const name of ["NODE_OPTIONS", "MGRPO_TEST_BLOCK_SECONDS"]) delete process.env[name];
});

test("a hung sample is over at its limit, its neighbors too, and the next one is sampled as ever", {
  timeout: 60_000,
}, async () => {
  block(3600);
  const sampler = await compiledEngine.openSampler(files, limited(1, 60));
  const neighbor = sampler.sample({ ...request, sequence: "n", stream: ["n"] }, AbortSignal.timeout(60_000));
  await expect(sampler.sample(request)).rejects.toMatchObject({
    code: "deadline",
    message: "the engine did not answer 'sample' within limits.turnSeconds 1",
  });
  await expect(neighbor).rejects.toMatchObject({ retryable: true });
  block(0);
  const unlimited = await compiledEngine.openSampler(files, OPTIONS);
  expect(await sampler.sample(request)).toEqual(await unlimited.sample(request));
  await Promise.all([sampler.close(), unlimited.close()]);
});

test("a canceled sample of a thread that hangs ends with its thread", { timeout: 60_000 }, async () => {
  block(3600);
  const sampler = await compiledEngine.openSampler(files, limited(1, 60));
  const cancel = new AbortController();
  const sampling = sampler.sample(request, cancel.signal);
  cancel.abort();
  await expect(sampling).rejects.toMatchObject({ code: "deadline" });
  await sampler.close();
});

test("a slow sample is not a hung one: its thread stops it at the limit and keeps the others", {
  timeout: 60_000,
}, async () => {
  block(0.3);
  const sampler = await compiledEngine.openSampler(files, limited(1.5, 60));
  const slow = sampler.sample({ ...request, sequence: "slow", maxTokens: 60 });
  await expect(slow).rejects.toMatchObject({ code: "deadline" });
  expect((await sampler.sample({ ...request, maxTokens: 2 })).tokens).toHaveLength(2);
  await sampler.close();
});

test("a hung training call is over at its limit; the step starts again from the files", {
  timeout: 60_000,
}, async () => {
  block(3600);
  const trainer = await compiledEngine.openTrainer(files, limited(60, 8));
  const pass = () => trainer.forwardBackward(batch, { kind: "linear" }, 1);
  await expect(pass()).rejects.toMatchObject({
    code: "deadline",
    message: "the engine did not answer 'forwardBackward' within limits.trainingSeconds 8",
  });
  block(0);
  await expect(pass()).rejects.toMatchObject({ code: "replay-failed" });
  await trainer.load(files);
  const fresh = await compiledEngine.openTrainer(files, OPTIONS);
  expect(await pass()).toEqual(await fresh.forwardBackward(batch, { kind: "linear" }, 1));
  await Promise.all([trainer.close(), fresh.close()]);
});
