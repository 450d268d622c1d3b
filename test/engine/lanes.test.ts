/** @file Which lane of a sampler a sequence is assigned to. */
import { expect, test } from "vitest";
import type { SampleRequest, Sampler } from "../../core/ports.ts";
import { laneSampler } from "../../engine/compiled/sampling/lane-sampler.ts";

/** `count` lanes that record the sequences assigned to them. */
function lanes(count: number) {
  const assigned = Array.from({ length: count }, () => new Set<string>());
  const samplers = assigned.map(
    (sequences): Sampler => ({
      async sample({ sequence }) {
        sequences.add(sequence);
        return { tokens: [], logProbs: [], stop: "length" };
      },
      release() {},
      async close() {},
    }),
  );
  const sampler = laneSampler(samplers);
  const ask = async (sequence: string, tokens: readonly number[], branchOf?: SampleRequest["branchOf"]) => {
    const sampling = { temperature: 1, topP: 1, topK: 0 };
    const request = { sequence, tokens, maxTokens: 1, stop: [], sampling, stream: [sequence] };
    await sampler.sample({ ...request, ...(branchOf && { branchOf }) });
  };
  return { sampler, ask, assigned: () => assigned.map((sequences) => [...sequences]) };
}

test("rollouts of a question share a lane, and questions are spread over lanes", async () => {
  const { ask, assigned } = lanes(2);
  for (const name of ["a1", "b1", "b2", "a2", "c1", "a3", "c2"]) await ask(name, [name.charCodeAt(0), 7]);
  expect(assigned()).toEqual([
    ["a1", "a2", "c1", "a3", "c2"],
    ["b1", "b2"],
  ]);
});

test("with a shared prompt, a lane gets at most 8 more sequences than the emptiest; a sequence keeps its lane until its release", async () => {
  const { ask, assigned, sampler } = lanes(2);
  const names = Array.from({ length: 12 }, (_, i) => `s${i}`);
  for (const name of names) await ask(name, [1]);
  expect(assigned()).toEqual([names.slice(0, 8), names.slice(8)]);
  for (const name of names) await ask(name, [1, 2, 3]);
  expect(assigned()).toEqual([names.slice(0, 8), names.slice(8)]);
  for (const name of names.slice(0, 8)) sampler.release(name);
  await ask("t", [2]);
  expect(assigned()[0]).toEqual([...names.slice(0, 8), "t"]);
  // After its release, s11 is a new sequence: it moves from the lane with three others to the one with only "t".
  sampler.release("s11");
  await ask("s11", [3]);
  expect(assigned()[0]).toEqual([...names.slice(0, 8), "t", "s11"]);
});

test("a branch gets the lane that has the cache of the sequence it branches from, even if another lane has fewer sequences", async () => {
  const { ask, assigned, sampler } = lanes(2);
  for (const [name, prompt] of [
    ["a", 1],
    ["b1", 2],
    ["b2", 2],
  ] as const)
    await ask(name, [prompt]);
  const branchOf = { sequence: "b1", sharedTokens: 1 };
  await ask("branch", [2, 7, 7], branchOf);
  expect(assigned()).toEqual([["a"], ["b1", "b2", "branch"]]);
  // A released sequence has no cache to share.
  sampler.release("b1");
  await ask("late", [2, 8, 8], branchOf);
  expect(assigned()[0]).toEqual(["a", "late"]);
});
