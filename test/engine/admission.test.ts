/** @file Admission when slots are scarce: the sequence that began first is admitted first, and one that cannot be admitted holds no slot. */
import { expect, test, vi } from "vitest";
import { MgrpoError } from "../../core/errors.ts";
import type { SampleRequest } from "../../core/ports.ts";
import { ContinuousBatch } from "../../engine/compiled/sampling/continuous-batch.ts";
import { KvCache } from "../../engine/compiled/sampling/kv-cache.ts";
import { openCompiledSampler } from "../../engine/compiled/sampling/sampler.ts";
import { OPTIONS, TINY, tinyCheckpoint } from "./tiny.ts";

test("a sequence's next turn is admitted before the first turn of a waiting sequence", async () => {
  const sampler = await openCompiledSampler(tinyCheckpoint(), { ...OPTIONS, slots: 2, provider: "cpu" });
  const ended: string[] = [];
  const turn = async (sequence: string, tokens: readonly number[], maxTokens: number) => {
    const sampling = { temperature: 1, topP: 1, topK: 0 };
    const stream = [sequence, tokens.length];
    const sample = await sampler.sample({ sequence, tokens: [...tokens], maxTokens, stop: [], sampling, stream });
    ended.push(`${sequence}${tokens.length}`);
    return [...tokens, ...sample.tokens];
  };
  const talk = async (sequence: string, turns: number, maxTokens: number) => {
    let history: readonly number[] = [1];
    for (let i = 0; i < turns; i++) history = [...(await turn(sequence, history, maxTokens)), 2];
    sampler.release(sequence);
  };
  // Two slots, of which b holds one throughout. When a comes back, c has the other; d has waited longer, but a began before it.
  await Promise.all([talk("a", 3, 2), talk("b", 1, 12), talk("c", 1, 2), talk("d", 1, 2)]);
  expect(ended.filter((name) => !name.startsWith("b"))).toEqual(["a1", "c1", "a4", "d1", "a7"]);
  await sampler.close();
});

/**
 * A batch of two slots whose decoder computes nothing. `ask` requests one token and takes one step: true if the request was served. A request
 * that was not served is dropped, as a sampler does when a step throws.
 */
function emptyBatch() {
  const cache = new KvCache(TINY, 2, 90);
  const probabilities = new Float32Array(2 * TINY.vocabulary).fill(1 / TINY.vocabulary);
  const decoder = { cache, async prefill() {}, place() {}, decode: async () => probabilities, close() {} };
  const batch = new ContinuousBatch(decoder, undefined, 2, TINY.vocabulary);
  const ask = async (sequence: string, branchOf?: SampleRequest["branchOf"]) => {
    let isServed = false;
    const sampling = { temperature: 1, topP: 1, topK: 0 };
    const own = { sequence, tokens: [1, 2, 3], maxTokens: 1, stop: [], sampling, stream: [sequence] };
    const sample = {
      request: { ...own, ...(branchOf && { branchOf }) },
      arrival: 0,
      limit: 1,
      resolve() {
        isServed = true;
      },
      reject() {},
    };
    batch.add(sample);
    try {
      await batch.step();
    } finally {
      if (!isServed) batch.drop(sample, new MgrpoError("canceled", "it was not served"));
    }
    return isServed;
  };
  return { cache, ask };
}

test.each<[string, string[], SampleRequest["branchOf"]]>([
  ["a sequence that returns", ["a", "a"], undefined],
  ["branches of a parked sequence", ["d", "e"], { sequence: "a", sharedTokens: 3 }],
])("after an allocation for the cache of %s has failed, all slots can be used", async (_name, failing, branchOf) => {
  const { cache, ask } = emptyBatch();
  // c takes the slot of a, which is parked.
  for (const name of ["a", "b", "c"]) expect(await ask(name), name).toBe(true);
  const restore = vi.spyOn(cache, "restore");
  // One failure for each slot: if each kept its slot, none would be left.
  for (const name of failing) {
    restore.mockImplementationOnce(() => {
      throw new RangeError("Array buffer allocation failed");
    });
    await expect(ask(name, branchOf), name).rejects.toThrow("Array buffer allocation failed");
  }
  for (const name of [...failing, "b", "c", ...failing]) expect(await ask(name, branchOf), name).toBe(true);
  // What was parked is restored, not computed again.
  expect(restore.mock.calls.length).toBeGreaterThan(failing.length);
});
