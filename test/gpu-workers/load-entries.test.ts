/** @file What an agent trains on in a group: the branches of a rollout by an app weigh as one trajectory. Trajectories are served from the cache. */
import { expect, test } from "vitest";
import { objectKeys } from "../../core/contracts/keys.ts";
import type { GroupRecord, StepRecord } from "../../core/contracts/records.ts";
import type { Trajectory } from "../../core/contracts/rollout.ts";
import { trajectoryName } from "../../core/contracts/telemetry.ts";
import type { RunContext } from "../../gpu-workers/run-context.ts";
import { loadEntries } from "../../gpu-workers/training/load-entries.ts";
import { openTrajectoryCache } from "../../gpu-workers/training/trajectories.ts";
import { teamConfig } from "../fakes/scripted-team.ts";

const config = teamConfig({ algorithm: { aggregation: "trajectory-mean" } });
const run = { name: config.run, config } as Partial<RunContext> as RunContext;
const step = { step: 3, policy: { main: 3, searcher: 3 } } as Partial<StepRecord> as StepRecord;
const digest = "d".repeat(22) as never;

/** A trajectory whose action tokens are all but the first. */
const trajectory = (actionTokens: number): Trajectory => ({
  agent: "main",
  version: 3,
  tokens: Array.from({ length: 1 + actionTokens }, (_, t) => t),
  actions: [[1, 1 + actionTokens]],
  logProbs: Array.from({ length: actionTokens }, () => -1),
});

test("all branches of a rollout have its advantage, and together the weight of one trajectory", async () => {
  const cache = openTrajectoryCache();
  const keyOf = (rollout: number) =>
    objectKeys.outcome({ run: config.run, phase: "train", step: 3, group: 1, rollout });
  cache.put(3, keyOf(0), [trajectory(3), trajectory(1)], digest);
  cache.put(3, keyOf(1), [trajectory(2)], digest);
  const score = { reward: 1, correct: 1, wellFormed: true, invocations: {}, tokens: 1, digest };
  const main = {
    trajectories: [0, 1],
    weights: [0.5],
    advantages: [1, -1],
    mean: 0,
    std: 0.5,
    duplicated: 0,
    dropped: 0,
  };
  const record = {
    ...{ run: "test", step: 3, group: 1, rollouts: { 0: score, 1: score }, finalized: { main } },
  } as unknown as GroupRecord;
  const entries = await loadEntries(run, step, "main", [record], cache);
  // Each rollout weighs 0.5. Rollout 0 has 3 + 1 action tokens, so each token weighs 0.5 / 4; rollout 1 has 2, so each weighs 0.5 / 2.
  const about = { group: 1, groupStd: 0.5 };
  expect(entries).toEqual([
    { ...about, name: trajectoryName(1, 0, 0), trajectory: trajectory(3), advantage: 1, tokenWeight: 0.125 },
    { ...about, name: trajectoryName(1, 0, 1), trajectory: trajectory(1), advantage: 1, tokenWeight: 0.125 },
    { ...about, name: trajectoryName(1, 1, 0), trajectory: trajectory(2), advantage: -1, tokenWeight: 0.25 },
  ]);
});
