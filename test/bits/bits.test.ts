/** @file The comparison of a run's bits with the recorded ones: what counts as a change, what as another machine, and what cannot be compared. */
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { type Bits, Bits as BitsSchema, compareBits, thisMachine } from "./bits.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const [A, B, C] = ["a", "b", "c"].map((digit) => digit.repeat(64)) as [string, string, string];
const [OURS, WIDER] = ["linux x64, AMD EPYC, avx2, Node.js 20", "linux x64, AMD EPYC, avx2 avx512f, Node.js 20"];
const RECORDED: Bits = {
  recipe: "recipes/atlas",
  arm: "mgrpo",
  seed: 7,
  machines: { [OURS]: { "3": { main: A, searcher: B } }, [WIDER]: { "3": { main: A, searcher: C } } },
};
const agentOf = (sha256: string) => ({ version: 3, checkpoint: "c", sha256 });
const RUN = {
  recipe: "recipes/atlas",
  arm: "mgrpo",
  seed: 7,
  steps: 3,
  agents: { main: agentOf(A), searcher: agentOf(B) },
} as const;
const changed = { ...RUN, agents: { ...RUN.agents, main: agentOf(B) } };

test("a run with its machine's recorded bits is the same; on an unrecorded machine, the bits of any recorded one will do", () => {
  expect(compareBits(RECORDED, RUN, OURS).is).toBe("same");
  expect(compareBits(RECORDED, { ...RUN, agents: { ...RUN.agents, searcher: agentOf(C) } }, WIDER).is).toBe("same");
  expect(compareBits(RECORDED, RUN, "another").is).toBe("same");
});

test("different bits are a change on a kind of machine that is recorded, and are only reported elsewhere", () => {
  expect(compareBits(RECORDED, changed, OURS)).toEqual({
    is: "changed",
    message: `different weights after 3 steps\n  main: ${B}, recorded: ${A}`,
  });
  // The bits of another machine are a change too.
  expect(compareBits(RECORDED, RUN, WIDER)).toMatchObject({
    is: "changed",
    message: expect.stringContaining(`searcher: ${B}, recorded: ${C}`),
  });
  const elsewhere = compareBits(RECORDED, changed, "linux x64, Intel Xeon, avx2, Node.js 20");
  expect(elsewhere.is).toBe("another machine");
  expect(elsewhere.message).toContain("this is linux x64, Intel Xeon, avx2, Node.js 20, which may round differently");
});

test("an agent that is missing, or not recorded, is a change", () => {
  const { main } = RUN.agents;
  expect(compareBits(RECORDED, { ...RUN, agents: { main } }, OURS).message).toContain("searcher: no weights");
  const more = { ...RUN.agents, judge: agentOf(C) };
  expect(compareBits(RECORDED, { ...RUN, agents: more }, OURS).is).toBe("changed");
});

test.each([
  [{ ...RUN, seed: 8 }, "its seed is 8, and 7 is recorded"],
  [{ ...RUN, recipe: "recipes/tally" }, "its recipe is recipes/tally, and recipes/atlas is recorded"],
  [{ ...RUN, steps: 5 }, "it has 5 steps, which are not recorded"],
])("a run that is not the recorded one cannot be compared: %#", (run, message) => {
  expect(compareBits(RECORDED, run, OURS)).toEqual({ is: "another run", message });
});

test("results/bits.json has the seed and steps of the run that .ci/run compares; thisMachine() ends with Node.js's version", () => {
  const read = (path: string) => readFileSync(join(ROOT, path), "utf8");
  const recorded = BitsSchema.parse(JSON.parse(read("results/bits.json")));
  const [, steps = "", seed] = /npm start -- --steps (\d+) --seed (\d+) --run demo/.exec(read(".ci/run")) ?? [];
  const machines = Object.values(recorded.machines);
  expect(machines.length).toBeGreaterThan(0);
  for (const bySteps of machines) expect(Object.keys(bySteps)).toContain(steps);
  expect(String(recorded.seed)).toBe(seed);
  expect(read(".ci/run")).toContain("\nnpm run bits -- runs/demo\n");
  expect(thisMachine()).toMatch(/^\w+ \w+, .+, Node\.js \d+$/);
});
