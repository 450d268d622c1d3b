/** @file Retention, references, due evaluations and the limit on lost rollouts, worked by hand. */
import { expect, test } from "vitest";
import type { Manifest } from "../../../core/contracts/checkpoint.ts";
import type { GroupRecord } from "../../../core/contracts/records.ts";
import {
  addressStep,
  dueJobs,
  dueSuites,
  dueTeamAfter,
  jobId,
  newJobs,
  readDueTeam,
} from "../../../core/training/evaluation.ts";
import { lostRollouts, tooManyLostReason } from "../../../core/training/lost-rollouts.ts";
import { referenceVersion } from "../../../core/training/reference.ts";
import { expiredParts, readExpiredVersion } from "../../../core/training/retention.ts";
import { policyAt } from "../../../core/training/step-plan.ts";
import { expired, keptVersions, stepsTable } from "../../fakes/retention.ts";
import { sha, teamConfig } from "../../fakes/scripted-team.ts";

const groupWith = (step: number, lost: number): GroupRecord => ({
  ...{
    run: "test",
    step,
    group: 0,
    questionId: "q",
    rolloutsPerQuestion: 8,
    state: "finalized",
    claims: {},
    crashes: {},
  },
  rollouts: Object.fromEntries(Array.from({ length: lost }, (_, k) => [String(k), { excluded: "tool backend" }])),
  finalized: {},
});

test("1% of ten steps of 8 x 8 rollouts is 6.4: six lost rollouts are tolerated, the seventh halts the run", () => {
  const config = teamConfig({ questionsPerStep: 8, rolloutsPerQuestion: 8 });
  expect(tooManyLostReason(config, [groupWith(3, 6)])).toBeUndefined();
  expect(tooManyLostReason(config, [groupWith(2, 6), groupWith(3, 1)])).toMatch(
    /^7 rollouts lost within 10 steps, more than limits\.lostFraction 0\.01 of 640; the last: 3\/0\/0: tool backend/,
  );
  expect(lostRollouts([groupWith(3, 2)])).toEqual(["3/0/0: tool backend", "3/0/1: tool backend"]);
});

test("team 0 and the last are evaluated on every suite, and every `every`-th in between on all but those with `when: ends`", async () => {
  const config = teamConfig({ steps: 5 });
  const names = async (of: typeof config, team: number) =>
    dueSuites(of, team, await readDueTeam(stepsTable([]), of, team)).map(({ name }) => name);
  expect(await Promise.all([0, 1, 2, 3, 4, 5].map((team) => names(config, team)))).toEqual([
    ...[["all", "ends"], [], ["all"], [], ["all"]],
    ["all", "ends"],
  ]);
  const rare = teamConfig({ steps: 2, evaluation: { suites: [{ name: "all" }] } });
  expect(await Promise.all([0, 1, 2].map((team) => names(rare, team)))).toEqual([["all"], [], ["all"]]);
});

/** The `dueTeam` of each step of a run in which step s begins after `sampled[s]` tokens. */
function dueTeams(config: ReturnType<typeof teamConfig>, sampled: readonly number[]): number[] {
  const steps: { step: number; sampledBefore: number; dueTeam: number }[] = [];
  for (const [step, sampledBefore] of sampled.entries()) {
    const dueTeam = dueTeamAfter(config, { step, sampledBefore }, steps.at(-1)) ?? expect.fail();
    steps.push({ step, sampledBefore, dueTeam });
  }
  return steps.map(({ dueTeam }) => dueTeam);
}

test("`every` below 1 is a share of the steps: a third of six steps is every second team", () => {
  for (const every of [1 / 3, 0.3333333333333333, 2 / 6]) {
    const config = teamConfig({ steps: 6, evaluation: { every, suites: [{ name: "all" }] } });
    expect(dueTeams(config, [0, 0, 0, 0, 0, 0])).toEqual([0, 2, 2, 4, 4, 6]);
  }
  const tenths = teamConfig({ steps: 10, evaluation: { every: 0.1, suites: [{ name: "all" }] } });
  expect(dueTeams(tenths, Array(10).fill(0))).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
});

test("with a token budget, each share of the tokens makes one team due: that of the first step to begin after the share", () => {
  const config = teamConfig({
    steps: 100,
    sampledTokens: 1000,
    evaluation: { every: 0.25, suites: [{ name: "all" }] },
  });
  // Shares when the steps begin: 0, 0.2, 0.26, 0.49, 0.8 (past two multiples), 0.9.
  expect(dueTeams(config, [0, 200, 260, 490, 800, 900])).toEqual([0, 0, 3, 3, 5, 5]);
});

test("unless `every` is a share of the run, a step records no `dueTeam`", () => {
  for (const every of [0, 1, 2]) {
    const config = teamConfig({ steps: 6, evaluation: { every, suites: [{ name: "all" }] } });
    expect(dueTeamAfter(config, { step: 3, sampledBefore: 0 }, undefined)).toBeUndefined();
  }
});

test("whether a team is due after a share is read from the step that produced it, which must exist", async () => {
  const config = teamConfig({ steps: 6, evaluation: { every: 0.5, suites: [{ name: "all" }] } });
  const table = stepsTable([0, 0, 3, 3]);
  expect(await Promise.all([0, 1, 2, 3, 4].map((team) => readDueTeam(table, config, team)))).toEqual([0, 0, 0, 3, 3]);
  const message = "STEP 4 of test is missing: it says whether team 5 is evaluated";
  await expect(readDueTeam(table, config, 5)).rejects.toMatchObject({ code: "record-damaged", message });
  const each = teamConfig({ steps: 6, evaluation: { every: 1, suites: [{ name: "all" }] } });
  expect(await readDueTeam(stepsTable([]), each, 5)).toBe(5);
});

test("a job's id depends on the team, and is the same each time: the suite's name and 16 hex digits", () => {
  const suite = teamConfig().evaluation.suites[0] ?? expect.fail();
  expect(jobId("a", suite, sha)).toBe(jobId("a", suite, sha));
  expect(jobId("a", suite, sha)).not.toBe(jobId("b", suite, sha));
  expect(jobId("a", suite, sha)).toMatch(/^all-[0-9a-f]{16}$/);
});

test("jobs are due while a run trains, but those of suites with `when: ends` only after it, and none once it is halted", () => {
  const config = teamConfig();
  const jobs = newJobs(config, 2, config.evaluation.suites, "a", sha);
  const unscored = { n: 0, correct: 0, runs: [], interval: { low: 0, high: 1 } };
  expect(jobs).toMatchObject([
    { run: "test", team: 2, suite: "all", state: "queued", owner: "", fence: 0, ...unscored },
    { run: "test", team: 2, suite: "ends", state: "queued", owner: "", fence: 0, ...unscored },
  ]);
  const done = jobs.map((job) => ({ ...job, state: "done" as const }));
  const leased = jobs.map((job) => ({ ...job, state: "leased" as const }));
  expect(dueJobs(config, "running", [...jobs, ...done, ...leased])).toEqual([jobs[0], leased[0]]);
  expect(dueJobs(config, "finished", [...jobs, ...done])).toEqual(jobs);
  expect(dueJobs(config, "halted", jobs)).toEqual([]);
});

test("rollouts of an evaluation are addressed by their team's number, counted from `firstTeam`, so that they can repeat the draws of an earlier run", () => {
  expect(addressStep(teamConfig(), 3)).toBe(3);
  expect(addressStep(teamConfig({ evaluation: { firstTeam: 40 } }), 3)).toBe(43);
});

test("a version is kept if it is evaluated (0, 4, 8), a multiple of `keepEvery` (3, 6) or one of the last two", async () => {
  const config = teamConfig({
    ...{ steps: 8, evaluation: { every: 4, suites: [{ name: "all" }] }, retention: { keepEvery: 3 } },
  });
  expect(await keptVersions(config, 8)).toEqual([0, 3, 4, 6, 8]);
  // When version n appears, version n-2 expires, unless it is kept.
  expect(await expired(config, 8)).toEqual([undefined, undefined, 1, 2, undefined, undefined, 5, undefined]);
  expect(await readExpiredVersion(stepsTable([]), config, 7)).toEqual({ version: 5, neighbors: [0, 4, 6, 7] });
});

test("versions that are evaluated after a share of the run are kept, and are neighbors of those after them", async () => {
  const config = teamConfig({ steps: 8, evaluation: { every: 0.3, suites: [{ name: "all" }] } });
  const table = stepsTable([0, 0, 3, 3, 5, 5, 5, 8]);
  expect(await keptVersions(config, 8, table)).toEqual([0, 3, 5, 8]);
  expect(await expired(config, 8, table)).toEqual([undefined, undefined, 1, 2, undefined, 4, undefined, 6]);
  expect(await readExpiredVersion(table, config, 6)).toEqual({ version: 4, neighbors: [0, 3, 5, 6] });
  expect(await readExpiredVersion(table, config, 8)).toEqual({ version: 6, neighbors: [0, 5, 7, 8] });
});

test("staleness keeps the versions that steps in flight are sampled from", async () => {
  for (const staleness of [0, 1, 3]) {
    const config = teamConfig({ steps: 20, staleness, algorithm: { tisCap: 2 }, evaluation: { suites: [] } });
    for (let newest = 1; newest < 20; newest++) {
      const deleted = await expired(config, newest);
      // With staleness n, step s is sampled from version s - n. When version v is published, steps v to v + n may be in flight.
      for (let step = newest; step <= newest + staleness; step++)
        expect(deleted).not.toContain(policyAt(config, Math.max(0, step - staleness))["main"]);
      expect(deleted).not.toContain(newest - 1);
    }
  }
});

test("a refreshed reference is the newest multiple of refreshEvery, and every multiple is kept", async () => {
  const kl = { coefficient: 0.1, estimator: "k3", refreshEvery: 3 } as const;
  expect([0, 1, 2, 3, 4, 5, 6, 7].map((version) => referenceVersion(kl, version))).toEqual([0, 0, 0, 3, 3, 3, 6, 6]);
  expect([0, 5].map((version) => referenceVersion({}, version))).toEqual([0, 0]);
  const plain = teamConfig({ steps: 8, evaluation: { suites: [] } });
  const config = { ...plain, algorithm: { ...plain.algorithm, kl } };
  expect(await keptVersions(config, 8)).toEqual([0, 3, 6, 8]);
  // No step's reference has been deleted.
  for (let newest = 1; newest <= 8; newest++)
    expect(await expired(config, newest)).not.toContain(referenceVersion(kl, newest));
});

test("a part is deleted only if no kept manifest names it: not the base's tokenizer, not unchanged weights", () => {
  const manifest = (version: number, weights: string, optimizer: string): Manifest => ({
    ...{ run: "test", agent: "main", version, trained: true, stats: null, seconds: null },
    files: {
      "tokenizer.json": { sha256: "base", bytes: 1 },
      "model.safetensors": { sha256: weights, bytes: 1 },
      "optimizer.safetensors": { sha256: optimizer, bytes: 1 },
    },
  });
  const kept = [manifest(0, "w0", "o0"), manifest(6, "w5", "o6"), manifest(7, "w7", "o7")];
  expect(expiredParts(manifest(5, "w5", "o5"), kept)).toEqual(["runs/test/parts/o5"]);
});
