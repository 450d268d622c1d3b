/** @file Bounds on recorded data: the largest records that the config allows fit in an item, even with the longest reasons and names. */
import { expect, test } from "vitest";
import { itemBytes } from "../../../adapters/aws/item-bytes.ts";
import { judgeName } from "../../../adapters/judges/judged-rewards.ts";
import {
  boundReason,
  ITEM_BYTES,
  MAX_QUESTIONS_PER_STEP,
  maxRolloutsPerQuestion,
  REASON_BYTES,
} from "../../../core/contracts/bounds.ts";
import { EvaluationSuite } from "../../../core/contracts/evaluation-suite.ts";
import { JudgeConfig } from "../../../core/contracts/judge.ts";
import { objectKeys, tableKeys } from "../../../core/contracts/keys.ts";
import { JudgeName } from "../../../core/contracts/names.ts";
import {
  type AgentBatch,
  type GroupRecord,
  JobRecord,
  type RolloutScore,
  type ScoredRollout,
  StepRecord,
} from "../../../core/contracts/records.ts";
import type { JudgeSpendingRecord } from "../../../core/contracts/spending.ts";
import { jobId } from "../../../core/training/evaluation.ts";
import { sha, teamConfig } from "../../fakes/scripted-team.ts";

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
    questionId: "q".repeat(90),
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

const groupBytes = (group: GroupRecord) =>
  itemBytes({ ...group, ...tableKeys.group(group.run, group.step, group.group) });

test.each([0, 1, 10, 32, 64, 400])(
  "the largest group with %i invocations per rollout fits in an item",
  (invocations) => {
    const K = maxRolloutsPerQuestion(invocations);
    expect(groupBytes(largestGroup(K, invocations))).toBeLessThan(ITEM_BYTES);
    const reason = boundReason("x".repeat(450_000));
    expect(groupBytes(largestGroup(K, 0, reason))).toBeLessThan(ITEM_BYTES);
  },
);

test.each([1, 10, 64])(
  "the largest group with turn rewards and %i invocations per rollout fits in an item",
  (invocations) => {
    const K = maxRolloutsPerQuestion(invocations, { main: 8, sub: 8 });
    expect(K).toBeLessThan(maxRolloutsPerQuestion(invocations));
    expect(groupBytes(largestGroup(K, invocations, undefined, 8))).toBeLessThan(ITEM_BYTES);
  },
);

/** The name of a reservation: the longest token of a claim, and a number. */
const RESERVATION = `${"t".repeat(64)}-0`;

test("4,000 open reservations, four times the default concurrency of Lambda, fit in one JUDGES item", () => {
  const names = Array.from({ length: 4000 }, (_, i) => String(i).padStart(RESERVATION.length, "t"));
  const reserved = Object.fromEntries(names.map((name) => [name, 2_000_000_000_000]));
  const judges: JudgeSpendingRecord = { run: "r".repeat(63), verdicts: 1e9, microUsd: 1e15, reserved };
  expect(itemBytes({ ...judges, ...tableKeys.judgeSpending(judges.run, 15) })).toBeLessThan(ITEM_BYTES);
});

test("the largest STEP fits in an item: 4,000 questions, as many positions in reserve, 100 agents", () => {
  const agents = Array.from({ length: 100 }, (_, i) => `agent-${String(i).padStart(25, "0")}`);
  const step: StepRecord = {
    ...{ run: "r".repeat(63), step: 123_456, state: "closed", round: 4000 },
    groups: Array.from({ length: MAX_QUESTIONS_PER_STEP }, (_, i) => String(i).padStart(90, "q")),
    policy: Object.fromEntries(agents.map((agent) => [agent, 123_456])),
    trained: agents,
    sampledBefore: 1e15 - 1,
    sampledTokens: 1e15 - 1,
    curriculum: {
      stage: 99,
      drawn: Array(100).fill(123_456_789),
      reserve: Array.from({ length: MAX_QUESTIONS_PER_STEP }, (_, i) => 123_456_789 + i),
    },
    dueTeam: 123_456,
  };
  expect(StepRecord.parse(step)).toEqual(step);
  expect(itemBytes({ ...step, ...tableKeys.step(step.run, step.step) })).toBeLessThan(ITEM_BYTES);
});

test("the largest JOB fits in an eighth of an item: 1,000 runs of a suite, 1,000 suspects", () => {
  const suite = EvaluationSuite.parse({ name: `s${"-".repeat(62)}`, runs: 1000 });
  expect(() => EvaluationSuite.parse({ ...suite, runs: 1001 })).toThrow();
  const job: JobRecord = {
    ...{ run: "r".repeat(63), job: jobId("team", suite, sha), team: 123_456, suite: suite.name },
    ...{ state: "done", owner: "w".repeat(40), fence: 123_456, n: 123_456_789, correct: LONG },
    runs: Array.from({ length: 1000 }, () => ({ n: 123_456_789, correct: LONG })),
    interval: { low: LONG, high: LONG },
    suspects: Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`${123_456 + i}/999`, 2])),
  };
  expect(JobRecord.parse(job)).toEqual(job);
  expect(itemBytes({ ...job, ...tableKeys.job(job.run, job.job) })).toBeLessThan(ITEM_BYTES / 8);
});

test("adapters give judges valid names, and a verdict's keys with the longest names are far below the limits of S3 and DynamoDB", () => {
  const model = { model: "openai#gpt-5-mini", usdPerMillionTokens: { input: 1, output: 1 } };
  expect(JudgeName.parse(judgeName(JudgeConfig.parse(model), "Compare."))).toHaveLength(16);
  const [run, judge] = ["r".repeat(63), "j".repeat(64)];
  expect(JudgeName.parse(judge)).toBe(judge);
  const { pk, sk } = tableKeys.verdict(run, sha(""), judge);
  for (const key of [objectKeys.verdict(run, sha(""), judge), pk, sk]) expect(Buffer.byteLength(key)).toBeLessThan(300);
});

test("a config whose groups or steps would not fit is refused, and the message says what to set instead", () => {
  // scripted-team's main agent: 8 turns of 4 calls, so 32 invocations; (409,600 - 2,048) / (1,500 + 32 x 150) = 64.7.
  expect(teamConfig({ rolloutsPerQuestion: 64 }).rolloutsPerQuestion).toBe(64);
  expect(() => teamConfig({ rolloutsPerQuestion: 65 })).toThrow(
    /a group of 65 rollouts, each with up to 32 invocations, does not fit in its record of 400 KB: set it to at most 64/,
  );
  expect(() => teamConfig({ questionsPerStep: 4001 })).toThrow(
    /a step of up to 4001 questions does .* set it to at most 4000"/,
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
  // 4,000 with one round of replacements: 2,000 questions, and as many replacements.
  expect(() => teamConfig({ questionsPerStep: 2001, dynamicSampling: { rounds: 1 } })).toThrow(
    /4002 questions, including replacements, .* set it to at most 2000, or lower dynamicSampling\.rounds/,
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
