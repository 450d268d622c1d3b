/** @file The handles of samplers and trainers in an engine thread, with a thread that computes nothing. */
import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import type { EngineCall } from "../../engine/compiled/protocol.ts";
import { openThreadSampler, openThreadTrainer } from "../../engine/compiled/session.ts";
import type { EngineThread } from "../../engine/compiled/thread.ts";
import { OPTIONS, tinyCheckpoint } from "./tiny.ts";

/** Answers every call, later. `methods`: the calls so far. Increment `generation` to end the thread. */
function fakeThread() {
  const methods: string[] = [];
  const thread = {
    generation: 0,
    newHandle: () => 0,
    async call(_handle: number, { method }: EngineCall) {
      methods.push(method);
      await setImmediate();
    },
    release() {},
  };
  return { thread, methods };
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
