/** @file The engine's threads and lanes: samples are bit-identical whatever the width of the cache and the number of lanes. Also: how engines are opened by name, and what is refused. */
import { expect, onTestFinished, test, vi } from "vitest";
import type { EngineOptions, SampleRequest } from "../../core/ports.ts";
import { compiledEngine } from "../../engine/compiled/engine.ts";
import { allOrNone, assignToLanes, laneCount, optionsOfLane } from "../../engine/compiled/lanes.ts";
import { EngineThread } from "../../engine/compiled/thread.ts";
import { type OpenOptions, openEngine, openSampler, openTrainer } from "../../engine/index.ts";
import { OPTIONS, TINY, tinyCheckpoint } from "./tiny.ts";

const AT_1 = { temperature: 1, topP: 1, topK: 0 };

test("a sample is bit-identical whether the cache is narrow or a neighboring sequence has widened it", async () => {
  const request: SampleRequest = {
    sequence: "short",
    tokens: [1, 2, 3],
    maxTokens: 40,
    stop: [],
    sampling: AT_1,
    stream: ["short"],
  };
  const alone = await compiledEngine.openSampler(tinyCheckpoint(), OPTIONS);
  const expected = await alone.sample(request);
  await alone.close();
  const sampler = await compiledEngine.openSampler(tinyCheckpoint(), OPTIONS);
  const tokens = Array.from({ length: 150 }, (_, i) => i % 37);
  const [short] = await Promise.all([
    sampler.sample(request),
    // Grows the cache to 192 at once, and later to its limit.
    sampler.sample({ ...request, sequence: "long", tokens, stream: ["long"], maxTokens: 45 }),
  ]);
  expect(short).toEqual(expected);
  await sampler.close();
});

test("samples are bit-identical on one lane and on three", async () => {
  const ask = async (threads: number) => {
    const sampler = await compiledEngine.openSampler(tinyCheckpoint(), { ...OPTIONS, threads });
    const samples = await Promise.all(
      Array.from({ length: 7 }, (_, i) => {
        const sequence = `s${i}`;
        const tokens = Array.from({ length: 2 + i }, (_x, t) => (3 * t + i) % 37);
        return sampler.sample({ sequence, tokens, maxTokens: 12, stop: [], sampling: AT_1, stream: [sequence] });
      }),
    );
    await sampler.close();
    return samples;
  };
  expect(await ask(3)).toEqual(await ask(1));
});

test("work is assigned evenly, each sequence once", () => {
  const lengths = [5, 1, 9, 9, 2, 4];
  const parts = assignToLanes(lengths, 2);
  expect(parts.flat().sort()).toEqual([0, 1, 2, 3, 4, 5]);
  expect(parts.map((members) => members.reduce((sum, member) => sum + (lengths[member] ?? 0), 0))).toEqual([15, 15]);
  expect(assignToLanes([1], 3)).toEqual([[0], [], []]);
});

test("if one lane fails to open, every other lane is closed, even one that opens later", async () => {
  const closed: string[] = [];
  const lane = (name: string) => ({ close: async () => void closed.push(name) });
  let openLate = () => {};
  const late = new Promise<ReturnType<typeof lane>>((resolve) => {
    openLate = () => resolve(lane("late"));
  });
  const failing = Promise.reject(new Error("no memory"));
  await expect(allOrNone([Promise.resolve(lane("first")), failing, late])).rejects.toThrow("no memory");
  openLate();
  await expect.poll(() => closed).toEqual(["first", "late"]);
});

test("a small model has one lane per thread, and lanes divide the slots; a large model, or any model on a GPU, is trained in one lane", () => {
  const options = { ...OPTIONS, threads: 4, slots: 6, provider: "cpu" } as const;
  expect(laneCount(TINY, options)).toBe(4);
  expect(laneCount({ ...TINY, vocabulary: 5_000_000 }, options)).toBe(1);
  expect(laneCount(TINY, { ...options, provider: "webgpu" })).toBe(1);
  expect(optionsOfLane(options, 4)).toEqual({ ...options, threads: 1, slots: 2 });
});

test("a turn that does not extend its sequence, or follows its release, gives the sample of a new sequence", async () => {
  const sampler = await compiledEngine.openSampler(tinyCheckpoint(), OPTIONS);
  const ask = (tokens: number[]) =>
    sampler.sample({ sequence: "s", tokens, maxTokens: 8, stop: [], sampling: AT_1, stream: ["s"] });
  const first = await ask([4, 5, 6]);
  await ask([9, 9, 9, 9, 9]);
  expect(await ask([4, 5, 6])).toEqual(first);
  sampler.release("s");
  expect(await ask([4, 5, 6])).toEqual(first);
  await sampler.close();
});

test("engines are found by the policy's name, and the error for an unknown name lists the known ones", () => {
  expect(openEngine("compiled")).toBe(compiledEngine);
  expect(openEngine("recipe:mine", new Map([["mine", compiledEngine]]))).toBe(compiledEngine);
  expect(() => openEngine("compild")).toThrow(/no policy is called 'compild': write one of compiled, eager/);
});

test("an unknown policy or an incomplete checkpoint rejects the promise, and does not throw", async () => {
  for (const open of [openSampler, openTrainer]) {
    await expect(open(tinyCheckpoint(), { policy: "compild" })).rejects.toThrow(/^no policy is called 'compild'/);
    await expect(open(new Map())).rejects.toMatchObject({ code: "checkpoint-damaged" });
  }
});

test.each<[string, Partial<EngineOptions>]>([
  ["slots", { slots: Number.NaN }],
  ["slots", { slots: 0 }],
  ["threads", { threads: 1.5 }],
  ["contextTokens", { contextTokens: 0 }],
  ["microBatchTokens", { microBatchTokens: -1 }],
  ["shardBytes", { shardBytes: 0 }],
  ["limits.turnSeconds", { limits: { turnSeconds: Number.NaN, trainingSeconds: 1 } }],
])("an option that cannot work is refused by name: %s in %o", async (name, options) => {
  for (const open of [openSampler, openTrainer]) {
    await expect(open(tinyCheckpoint(), options)).rejects.toMatchObject({
      code: "config-invalid",
      message: expect.stringContaining(`options: ${name}: `) as string,
    });
  }
});

test("a misspelled option is refused with the known ones, which include those that no run config has", async () => {
  const misspelled: OpenOptions & { readonly quantisation: string } = { slots: 4, quantisation: "int4" };
  for (const open of [openSampler, openTrainer]) {
    await expect(open(tinyCheckpoint(), misspelled)).rejects.toMatchObject({
      code: "config-invalid",
      message: expect.stringMatching(/^options: Unrecognized key: "quantisation" \(.*quantization/) as string,
    });
    const known = { serverOptimizer: true, limits: { turnSeconds: 600, trainingSeconds: 600 } };
    await (await open(tinyCheckpoint(), known)).close();
  }
});

test.each<[string, OpenOptions]>([
  ["precision: bf16 needs provider cuda, not 'cpu'", { precision: "bf16" }],
  ["precision: bf16 needs policy 'compiled', not 'eager'", { policy: "eager", precision: "bf16" }],
  ["quantization: needs policy 'compiled', not 'eager'", { policy: "eager", quantization: "int4" }],
  ["weightPacking: needs policy 'compiled', not 'eager'", { policy: "eager", weightPacking: "on" }],
  ["provider: does nothing with policy 'eager'", { policy: "eager", provider: "cuda" }],
])("an option that the engine would ignore is refused: %s", async (fault, options) => {
  for (const open of [openSampler, openTrainer]) {
    await expect(open(tinyCheckpoint(), options)).rejects.toMatchObject({
      code: "config-invalid",
      message: expect.stringContaining(`options: ${fault}`) as string,
    });
  }
});

test("the error for a missing GPU backend names the package to install", async () => {
  await expect(openEngine("eager-gpu").openTrainer(tinyCheckpoint(), OPTIONS)).rejects.toThrow(
    /npm install @tensorflow\/tfjs-node-gpu@4.22.0/,
  );
});

test("a vocabulary that the tracer would mistake for a variable length is refused", async () => {
  const trainer = await compiledEngine.openTrainer(tinyCheckpoint({ ...TINY, vocabulary: 10007 }), OPTIONS);
  await expect(trainer.logProbs([[1, 2]], 1)).rejects.toThrow(/dimension of 10007/);
  await trainer.close();
});

test("a call whose body cannot be copied to the thread throws, and leaves no timer running", () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const thread = new EngineThread();
  const stream = [() => 1] as unknown as string[];
  const request = { sequence: "s", tokens: [1], maxTokens: 1, stop: [], sampling: AT_1, stream };
  const call = () => thread.call(thread.newHandle(), { method: "sample", request }, { seconds: 60 });
  expect(call).toThrow(/could not be cloned/);
  expect(vi.getTimerCount()).toBe(0);
});
