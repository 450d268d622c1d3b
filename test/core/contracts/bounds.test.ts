/** @file Bounds on recorded data: the largest group that the config allows fits in an item, even with the longest reasons. */
import { expect, test } from "vitest";
import { itemBytes } from "../../../adapters/aws/meter.ts";
import { boundReason, ITEM_BYTES, maxRolloutsPerQuestion, REASON_BYTES } from "../../../core/contracts/bounds.ts";
import { tableKeys } from "../../../core/contracts/keys.ts";
import type { AgentBatch, GroupRecord, RolloutScore, ScoredRollout } from "../../../core/contracts/records.ts";
import type { JudgeSpendingRecord } from "../../../core/contracts/spending.ts";
import { teamConfig } from "../../fakes/scripted-team.ts";

/** 17 significant digits, the most that a double needs. */
const LONG = 0.30000000000000004;
const DIGEST = "d".repeat(22);
const MAIN = `a${"m".repeat(30)}`;
const SUB = `a${"s".repeat(30)}`;

const batchOf = (trajectories: AgentBatch["trajectories"]): AgentBatch => ({
  trajectories,
  weights: trajectories.map(() => LONG),
  advantages: trajectories.map(() => LONG),
  mean: LONG,
  std: LONG,
  duplicated: 1000,
  dropped: 1000,
});

/** A group of K rollouts whose fields are as long as they get. */
function largestGroup(K: number, invocations: number, excluded?: string, turns = 0): GroupRecord {
  const ids = [...Array(K).keys()];
  const perRollout = <T>(value: T) => Object.fromEntries(ids.map((k) => [String(k), value]));
  const rewarded = turns > 0 && { turns: Array.from({ length: turns }, () => 0.123456) };
  const offsets = (of: number) =>
    turns > 0 && { turns: Array.from({ length: of }, () => Array(turns).fill(-0.123456789)) };
  const invocation = { id: DIGEST, reward: LONG, expert: LONG, digest: DIGEST, masked: "caller" as const, ...rewarded };
  const scored: ScoredRollout = {
    reward: LONG,
    correct: LONG,
    wellFormed: true,
    tokens: 123_456,
    digest: DIGEST,
    invocations: { [SUB]: Array.from({ length: invocations }, () => invocation) },
    judged: { inputTokens: 1_234_567, outputTokens: 123_456, usd: LONG },
    masked: true,
    ...rewarded,
  };
  const score: RolloutScore = excluded === undefined ? scored : { excluded };
  return {
    run: "r".repeat(63),
    step: 123_456,
    group: 1000,
    questionId: "q".repeat(80),
    rolloutsPerQuestion: K,
    state: "finalized",
    claims: perRollout("w".repeat(40)),
    crashes: Object.fromEntries(ids.flatMap((k) => [0, 1, 2].map((n) => [`${k}/${n}`.padEnd(40, "w"), k]))),
    rollouts: perRollout(score),
    finalized: {
      [MAIN]: { ...batchOf(ids), ...offsets(K) },
      [SUB]: {
        ...batchOf(ids.flatMap((k) => Array.from({ length: invocations }, (_, i) => `${k}/${i}`))),
        ...offsets(K * invocations),
      },
    },
    expiresAt: 2_000_000_000,
  };
}

test.each([0, 1, 10, 32, 64, 400])(
  "the largest group with %i invocations per rollout fits in an item",
  (invocations) => {
    const K = maxRolloutsPerQuestion(invocations);
    expect(itemBytes(largestGroup(K, invocations))).toBeLessThan(ITEM_BYTES);
    const reason = boundReason("x".repeat(450_000));
    expect(itemBytes(largestGroup(K, 0, reason))).toBeLessThan(ITEM_BYTES);
  },
);

test.each([1, 10, 64])(
  "the largest group with turn rewards and %i invocations per rollout fits in an item",
  (invocations) => {
    const K = maxRolloutsPerQuestion(invocations, { main: 8, sub: 8 });
    expect(K).toBeLessThan(maxRolloutsPerQuestion(invocations));
    expect(itemBytes(largestGroup(K, invocations, undefined, 8))).toBeLessThan(ITEM_BYTES);
  },
);

/** The longest name of a reservation: 16 characters of the subject, 64 of the judge, five digits of requests about it. */
const RESERVATION = `${"s".repeat(16)}-${"j".repeat(64)}-99999-0`;

test("4,000 open reservations, four times as many as Lambda has instances by default, fit in JUDGES", () => {
  const names = Array.from({ length: 4000 }, (_, i) => String(i).padStart(RESERVATION.length, "s"));
  const reserved = Object.fromEntries(names.map((name) => [name, 2_000_000_000_000]));
  const judges: JudgeSpendingRecord = { run: "r".repeat(63), verdicts: 1e9, microUsd: 1e15, reserved };
  expect(itemBytes({ ...judges, ...tableKeys.judgeSpending(judges.run) })).toBeLessThan(ITEM_BYTES);
});

test("a config whose groups or steps would not fit is refused, and the message says what to set instead", () => {
  // scripted-team's main agent: 8 turns of 4 calls, so 32 invocations; (409,600 - 2,048) / (1,500 + 32 x 150) = 64.7.
  expect(teamConfig({ rolloutsPerQuestion: 64 }).rolloutsPerQuestion).toBe(64);
  expect(() => teamConfig({ rolloutsPerQuestion: 65 })).toThrow(
    /a group of 65 rollouts, each with up to 32 invocations, does not fit in its record of 400 KB: set at most 64/,
  );
  expect(() => teamConfig({ questionsPerStep: 4001 })).toThrow(
    /a step of up to 4001 questions does .* set at most 4000"/,
  );
  // 338 turns of 4 calls: (409,600 - 2,048) / (1,500 + 1,352 x 150) = 1.99, but a group has at least two rollouts.
  const main = { model: "m", delegates: ["searcher"], limits: { turns: 338, calls: 4 } };
  expect(() => teamConfig({ agents: { main, searcher: { model: "s" } } })).toThrow(
    /a group of 3 rollouts, each with up to 1352 invocations, .* 400 KB: lower limits\.turns or limits\.calls of 'main'/,
  );
  // A lone agent with 6,800 rewarded turns: (409,600 - 2,048) / (1,500 + 6,800 x 30) = 1.98.
  const lone = { main: { model: "m", limits: { turns: 6800 } } };
  expect(() => teamConfig({ agents: lone, algorithm: { turnWeight: 1 } })).toThrow(
    /a group of 3 rollouts does not fit in its record of 400 KB: lower limits\.turns of 'main'/,
  );
  expect(() => teamConfig({ dynamicSampling: { rounds: 4000 } })).toThrow(
    /12003 questions, including replacements, .* 400 KB: lower dynamicSampling\.rounds/,
  );
  // 4,000 with one round of replacements: 2,000 of either.
  expect(() => teamConfig({ questionsPerStep: 2001, dynamicSampling: { rounds: 1 } })).toThrow(
    /4002 questions, including replacements, .* set at most 2000, or lower dynamicSampling\.rounds/,
  );
});

test("a reason is cut to at most 1,000 bytes and keeps its start and end, whatever its characters", () => {
  expect(boundReason("short")).toBe("short");
  for (const letter of ["x", "é", "中", "😀"]) {
    const cut = boundReason(`start ${letter.repeat(450_000)} end`);
    expect(cut).toMatch(/^start .*bytes left out.* end$/);
    expect(cut).not.toContain("\ufffd");
    expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(REASON_BYTES);
  }
});
