/** @file Whatever happens to events and to the functions themselves, the run ends with the same records. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { teamConfig } from "../fakes/scripted-team.ts";
import { reliable, simulate } from "./simulate.ts";

const config = teamConfig();
const expected = await simulate(config, reliable);

test("with reliable events and no scheduled ticks, the run finishes, no question repeats, and every due evaluation is queued", () => {
  expect(expected.run).toMatchObject({ status: "finished", step: 3, reason: "" });
  expect(expected.steps.map(({ state }) => state)).toEqual(["closed", "closed", "closed"]);
  expect(expected.groups.every(({ state }) => state === "finalized")).toBe(true);
  expect(expected.groups).toHaveLength(9);
  expect(expected.agents.map((agent) => agent["version"])).toEqual([3, 3]);
  // Three steps draw 9 of the 10 questions.
  expect(new Set(expected.steps.flatMap(({ groups }) => groups)).size).toBe(9);
  // Teams 0 and 3 on both suites, team 2 on the one that is due every 2 steps.
  expect(expected.jobs.map(({ team, suite }) => `${team} ${suite}`).sort()).toEqual([
    "0 all",
    "0 ends",
    "2 all",
    "3 all",
    "3 ends",
  ]);
});

test("with evaluation.every 0.5, the team halfway through the run, by steps or sampled tokens, is evaluated, even if events are unreliable", async () => {
  const byShare = teamConfig({ steps: 4, evaluation: { every: 0.5, suites: [{ name: "all" }] } });
  const byTokens = { ...byShare, steps: 50, sampledTokens: 60 };
  for (const shared of [byShare, byTokens]) {
    const once = await simulate(shared, reliable);
    const last = once.steps.length;
    const half = once.steps.findIndex(
      ({ step, sampledBefore }) => (shared === byShare ? (step + 1) / 4 : sampledBefore / 60) >= 0.5,
    );
    expect(half).toBeLessThan(last - 1);
    expect(once.jobs.map(({ team }) => Number(team)).sort((a, b) => a - b)).toEqual([0, half + 1, last]);
    expect(await simulate(shared, { seed: 3, drop: 0.3, duplicate: 0.3, die: 0.1 })).toEqual(once);
  }
});

test("a run with late, duplicate and reordered events ends with the same records", async () => {
  await fc.assert(
    fc.asyncProperty(fc.nat(), async (seed) => {
      expect(await simulate(config, { seed, drop: 0, duplicate: 0.4, die: 0 })).toEqual(expected);
    }),
    { numRuns: 10 },
  );
});

test("with scheduled ticks, a run whose events are dropped and whose functions crash ends with the same records", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.nat(),
      fc.constantFrom(0.3, 1),
      fc.constantFrom(0, 0.1),
      fc.boolean(),
      async (seed, drop, die, isLongLived) => {
        expect(await simulate(config, { seed, drop, duplicate: 0.2, die, isLongLived })).toEqual(expected);
      },
    ),
    { numRuns: 12 },
  );
});

test("dynamic sampling: a step has at most dynamicSampling.rounds replacement rounds; with unreliable events, the records are the same", async () => {
  const dynamic = teamConfig({ dynamicSampling: { rounds: 2 }, rolloutsPerQuestion: 2 });
  const once = await simulate(dynamic, reliable);
  expect(once.steps.some(({ round }) => round > 0)).toBe(true);
  expect(once.steps.every(({ round }) => round <= 2)).toBe(true);
  expect(await simulate(dynamic, { seed: 7, drop: 0.3, duplicate: 0.3, die: 0.1 })).toEqual(once);
});

test("sampledTokens ends the run early, with its final evaluations, even with unreliable events", async () => {
  const long = teamConfig({ steps: 50, sampledTokens: 25 });
  const once = await simulate(long, reliable);
  const sampled = once.steps.map((step) => step.sampledBefore + step.sampledTokens);
  // Nine rollouts per step with one token each, and one per invocation: the first step that reaches 25 is the last.
  expect(sampled.findIndex((tokens) => tokens >= 25)).toBe(sampled.length - 1);
  expect(once.run).toMatchObject({ status: "finished", step: sampled.length });
  expect(once.jobs.filter(({ team }) => team === sampled.length).map(({ suite }) => suite)).toEqual(
    expect.arrayContaining(["all", "ends"]),
  );
  expect(JSON.parse(once.team)).toMatchObject({ team: sampled.length });
  expect(await simulate(long, { seed: 3, drop: 0.3, duplicate: 0.3, die: 0.1 })).toEqual(once);
});

const tis = { algorithm: { tisCap: 2 } };

test("staleness changes neither groups nor evaluations; step s samples from version max(0, s - staleness), even with unreliable events", async () => {
  for (const staleness of [1, 2, 5]) {
    const stale = teamConfig({ ...tis, staleness });
    const once = await simulate(stale, reliable);
    const learned = ({ groups }: typeof once) => groups.map(({ questionId, finalized }) => ({ questionId, finalized }));
    expect(learned(once)).toEqual(learned(expected));
    expect(once.jobs).toEqual(expected.jobs);
    expect(once.steps.map(({ policy }) => policy["main"])).toEqual(
      [0, 1, 2].map((step) => Math.max(0, step - staleness)),
    );
    await fc.assert(
      fc.asyncProperty(fc.nat(), fc.constantFrom(0, 0.3, 1), fc.constantFrom(0, 0.1), async (seed, drop, die) => {
        expect(await simulate(stale, { seed, drop, duplicate: 0.3, die })).toEqual(once);
      }),
      { numRuns: 4 },
    );
  }
});

test("staleness with dynamic sampling: an epoch's first questions do not repeat; with unreliable events, the records are the same", async () => {
  // 6 steps, each with 2 questions and 2 in reserve; an epoch has 10 questions.
  const dynamic = { dynamicSampling: { rounds: 1 }, questionsPerStep: 2, rolloutsPerQuestion: 2, steps: 6 };
  for (const staleness of [0, 1, 2]) {
    const stale = teamConfig({ ...tis, ...dynamic, staleness });
    const once = await simulate(stale, reliable);
    expect(once.steps.some(({ round }) => round > 0)).toBe(true);
    const asked = once.steps.flatMap(({ groups }) => groups);
    const reserved = (staleness + 1) * 2;
    // Steps in flight may hold back up to `reserved` of the epoch's questions; the others are asked before any is asked again.
    expect(new Set(asked.slice(0, 10 - reserved)).size).toBe(10 - reserved);
    expect(await simulate(stale, { seed: 5, drop: 0.3, duplicate: 0.3, die: 0.1 })).toEqual(once);
  }
});

test("staleness: sampledTokens ends the run after the steps in flight, all of which are trained", async () => {
  const long = teamConfig({ ...tis, steps: 50, sampledTokens: 25, staleness: 1 });
  const once = await simulate(long, reliable);
  const totals = once.steps.map((_, i) =>
    once.steps.slice(0, i + 1).reduce((sum, { sampledTokens }) => sum + sampledTokens, 0),
  );
  // The step that reaches 25 is not the last: one more was in flight.
  expect(totals.findIndex((tokens) => tokens >= 25)).toBe(once.steps.length - 2);
  expect(once.run).toMatchObject({ status: "finished", step: once.steps.length });
  expect(once.steps.every(({ state }) => state === "closed")).toBe(true);
  expect(once.jobs.some(({ team }) => team === once.steps.length)).toBe(true);
  expect(await simulate(long, { seed: 3, drop: 0.3, duplicate: 0.3, die: 0.1 })).toEqual(once);
});
