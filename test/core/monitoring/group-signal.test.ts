/** @file Why an agent learns nothing from a group: the reason is true of the rollouts and invocations that count. */
import { expect, test } from "vitest";
import { AlgorithmConfig } from "../../../core/contracts/algorithm-config.ts";
import type { GroupRecord, ScoredRollout } from "../../../core/contracts/records.ts";
import { finalizeGroup } from "../../../core/mgrpo/finalize.ts";
import { whyNoSignal } from "../../../core/monitoring/group-signal.ts";

/** At most one trajectory of the searcher per rollout. */
const ALGORITHM = AlgorithmConfig.parse({ alignment: { mode: "resample", d: 1 } });

const scored = (reward: number, searcher: readonly number[], masked?: true): ScoredRollout => ({
  reward,
  correct: reward,
  wellFormed: !masked,
  tokens: 10,
  invocations: {
    searcher: searcher.map((own, i) => ({ id: `searcher-${i}`.padEnd(22, "_"), reward: own, expert: own })),
  },
  masked,
});

function reasons(scores: readonly GroupRecord["rollouts"][string][], algorithm = ALGORITHM, seed = 1) {
  const rollouts = Object.fromEntries(scores.map((score, k) => [String(k), score]));
  const group: GroupRecord = {
    ...{ run: "r", step: 0, group: 0, questionId: "q", rolloutsPerQuestion: scores.length, crashes: {} },
    state: "finalized",
    rollouts,
    finalized: finalizeGroup(rollouts, "main", ["searcher"], algorithm, [seed]),
  };
  return { main: whyNoSignal(group, "main", "main"), searcher: whyNoSignal(group, "searcher", "main") };
}

test("there is no reason if rewards differ", () => {
  expect(reasons([scored(1, [0.9]), scored(0, [0.1])])).toEqual({ main: undefined, searcher: undefined });
});

test("equal rewards are a reason, and so is a sub-agent without calls", () => {
  expect(reasons([scored(1, [0.5]), scored(1, [0.5])])).toEqual({
    main: "every rollout is correct",
    searcher: "every invocation has reward 0.500",
  });
  expect(reasons([scored(0, []), scored(0, [])])).toEqual({
    main: "every rollout is wrong",
    searcher: "no rollout called it",
  });
});

test("a group with one rollout left teaches no agent, whatever that rollout called", () => {
  const left = "only one rollout of the group is left";
  expect(reasons([scored(1, [0.9]), { excluded: "worker gone" }])).toEqual({ main: left, searcher: left });
});

test("calls of a masked rollout do not count", () => {
  expect(reasons([scored(0, [0.2], true), scored(1, [0.5])]).searcher).toBe(
    "every invocation that counts has reward 0.500",
  );
  expect(reasons([scored(0, [0.2], true), scored(0, [0.5], true)])).toEqual({
    main: "every rollout was truncated and is masked",
    searcher: "every invocation is masked or was dropped by alignment",
  });
});

test("calls that alignment drops do not count", () => {
  const group = [scored(1, [0.5, 0.9]), scored(0, [0.5])];
  const found = Array.from({ length: 40 }, (_, seed) => reasons(group, ALGORITHM, seed).searcher);
  expect(new Set(found)).toEqual(new Set([undefined, "every invocation that counts has reward 0.500"]));
});

test("under leave-one-out, the calls of one rollout are compared with nothing", () => {
  const algorithm = AlgorithmConfig.parse({ baseline: "leave-one-out", alignment: { mode: "none" } });
  expect(reasons([scored(1, [0.2, 0.9]), scored(0, [])], algorithm).searcher).toBe("only one rollout called it");
  expect(reasons([scored(1, [0.2, 0.9]), scored(0, [0.5], true)], algorithm).searcher).toBe(
    "the invocations of only one rollout count",
  );
});

test("calls that alignment drops do not count even if a single rollout made all of them", () => {
  const group = [scored(1, [0.5, 0.9]), scored(0, [])];
  const found = Array.from({ length: 40 }, (_, seed) => reasons(group, ALGORITHM, seed).searcher);
  expect(new Set(found)).toEqual(
    new Set(["every invocation that counts has reward 0.500", "every invocation that counts has reward 0.900"]),
  );
});

/** The invocations of these indices are truncated, and masked themselves. */
function withMasked(score: ScoredRollout, ...masked: number[]): ScoredRollout {
  const calls = score.invocations["searcher"] ?? [];
  const searcher = calls.map((call, i) => (masked.includes(i) ? { ...call, masked: true as const } : call));
  return { ...score, invocations: { searcher } };
}

test("rewards that differ only from masked ones are not called equal", () => {
  for (const baseline of ["group", "leave-one-out"] as const) {
    const algorithm = AlgorithmConfig.parse({ baseline, alignment: { mode: "none" } });
    // Both baselines of the searcher's 0.5, and of the main agent's, are (0 + 1) / 2: the mean, with or without the 0.5 itself.
    const group = [scored(0.5, [0.5]), scored(0, [], true), scored(1, [], true), withMasked(scored(0.5, [0, 1]), 0, 1)];
    expect(reasons(group, algorithm)).toEqual({
      main: "only masked rollouts have an advantage other than 0",
      searcher: "only masked invocations have an advantage other than 0",
    });
  }
});
