/** @file The proxies of samplers and trainers in an engine thread, with a thread that computes nothing. */
import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import type { EngineCall } from "../../engine/compiled/protocol.ts";
import type { EngineThread } from "../../engine/compiled/thread.ts";
import { openThreadSampler, openThreadTrainer } from "../../engine/compiled/thread-proxies.ts";
import { OPTIONS, tinyCheckpoint } from "./tiny.ts";

/**
 * Answers every call asynchronously, and fails those in `failing`. `methods`: the calls so far; `files`: each one's file names. Increment
 * `generation` to end the thread.
 */
function fakeThread(failing: readonly string[] = []) {
  const methods: string[] = [];
  const files: string[][] = [];
  const thread = {
    generation: 0,
    newHandle: () => 0,
    async call(_handle: number, body: EngineCall) {
      methods.push(body.method);
      files.push("files" in body ? [...body.files.keys()] : []);
      await setImmediate();
      if (failing.includes(body.method)) throw new Error(`${body.method} fails`);
    },
    release() {},
  };
  return { thread, methods, files };
}

test("a sampler that is closed while it is being opened again is closed in its thread too", async () => {
  const { thread, methods } = fakeThread();
  const options = { ...OPTIONS, provider: "cpu" } as const;
  const sampler = await openThreadSampler(thread as unknown as EngineThread, tinyCheckpoint(), options);
  thread.generation += 1;
  const sampling = sampler.sample({
    sequence: "s",
    tokens: [1],
    maxTokens: 1,
    stop: [],
    sampling: { temperature: 1, topP: 1, topK: 0 },
    stream: ["s"],
  });
  const closing = sampler.close();
  await expect(sampling).rejects.toMatchObject({ code: "canceled" });
  await closing;
  expect(methods).toEqual(["openSampler", "openSampler", "close"]);
});

test("a sampler or trainer may be closed again: its thread closes it once", async () => {
  const options = { ...OPTIONS, provider: "cpu" } as const;
  for (const open of [openThreadSampler, openThreadTrainer]) {
    const { thread, methods } = fakeThread();
    const opened = await open(thread as unknown as EngineThread, tinyCheckpoint(), options);
    await Promise.all([opened.close(), opened.close()]);
    await opened.close();
    expect(methods.slice(1)).toEqual(["close"]);
  }
});

test("a lost trainer is opened again with its optimizer's files only if its state had not changed", async () => {
  const { thread, methods, files } = fakeThread();
  const options = { ...OPTIONS, provider: "cpu" } as const;
  const model = tinyCheckpoint();
  const given = new Map([...model, ["optimizer.safetensors", new Uint8Array()]]);
  const trainer = await openThreadTrainer(thread as unknown as EngineThread, given, options);
  thread.generation += 1;
  await trainer.logProbs([[1, 2]], 1);
  await trainer.takeGradient();
  thread.generation += 1;
  await trainer.load(given);
  expect(methods).toEqual(["openTrainer", "openTrainer", "logProbs", "takeGradient", "openTrainer", "load"]);
  const all = [...given.keys()];
  expect(files).toEqual([all, all, [], [], [...model.keys()], all]);
});

test("a trainer whose state is lost computes nothing until files are loaded successfully", async () => {
  const failing: string[] = [];
  const { thread } = fakeThread(failing);
  const trainer = await openThreadTrainer(thread as unknown as EngineThread, tinyCheckpoint(), {
    ...OPTIONS,
    provider: "cpu",
  });
  await trainer.takeGradient();
  thread.generation += 1;
  failing.push("load");
  await expect(trainer.load(new Map())).rejects.toThrow("load fails");
  await expect(trainer.logProbs([[1, 2]], 1)).rejects.toMatchObject({ code: "replay-failed" });
  failing.pop();
  await trainer.load(tinyCheckpoint());
  await trainer.logProbs([[1, 2]], 1);
});
