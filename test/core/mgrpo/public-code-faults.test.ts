/** @file Bugs of the public M-GRPO code that concern the algorithm, and tests that this code does not have them. */
import { expect, test } from "vitest";
import { AlgorithmConfig } from "../../../core/contracts/algorithm-config.ts";
import type { RolloutScore } from "../../../core/contracts/records.ts";
import type { FinishedOutcome, Invocation, Trajectory } from "../../../core/contracts/rollout.ts";
import { finalizeGroup } from "../../../core/mgrpo/finalize.ts";
import { actionPositions_A } from "../../../core/mgrpo/tokens.ts";
import { scoreRollout } from "../../../core/training/score.ts";
import { conversationOf, teamConfig } from "../../fakes/scripted-team.ts";

const algorithm = AlgorithmConfig.parse({ alignment: { d: 3 } });
const call = (id: string, reward: number) => ({ id: id.padEnd(22, "_"), reward, expert: reward });
const rollout = (reward: number, calls: ReturnType<typeof call>[]): RolloutScore => ({
  reward,
  correct: reward,
  wellFormed: true,
  tokens: 10,
  invocations: { searcher: calls },
});

test("theirs: a sub-agent's group is any 8 adjacent items of any questions. Ours: the aligned calls of one question", () => {
  const easy = { 0: rollout(1, [call("e0", 0.9), call("e1", 1)]), 1: rollout(1, [call("e2", 1)]) };
  const hard = { 0: rollout(0, [call("h0", 0)]), 1: rollout(0, [call("h1", 0.1)]) };
  const [first, second] = [easy, hard].map(
    (group) => finalizeGroup(group, "main", ["searcher"], algorithm, [1])["searcher"],
  );
  // Pooled with the easy question, both calls of the hard one would have negative advantages. Alone, the better one's is positive.
  expect(second?.advantages.map(Math.sign)).toEqual([-1, 1]);
  expect(first?.trajectories).toEqual(expect.arrayContaining(["1/0"]));
});

test("theirs: no alignment. Ours: a rollout with five calls has the same weight as one with one call", () => {
  const many = [0, 1, 2, 3, 4].map((i) => call(`m${i}`, i / 10));
  const group = { 0: rollout(1, many), 1: rollout(0, [call("one", 1)]) };
  const finalized = finalizeGroup(group, "main", ["searcher"], algorithm, [1])["searcher"];
  const share = (rollout: number) =>
    (finalized?.trajectories ?? []).reduce<number>(
      (sum, name, i) => (String(name).startsWith(`${rollout}/`) ? sum + (finalized?.weights[i] ?? 0) : sum),
      0,
    );
  expect(share(0)).toBeCloseTo(0.5, 12);
  expect(share(1)).toBeCloseTo(0.5, 12);
});

test("theirs: a judge outage is scored as wrong. Ours: the rollout is left out of every mean, and the others' advantages do not change", () => {
  const healthy = { 0: rollout(1, [call("a", 1)]), 1: rollout(0, [call("b", 0.2)]) };
  const outage = { ...healthy, 2: { excluded: "judge: no answer after 3 attempts" } };
  const finalize = (group: Record<string, RolloutScore>) => finalizeGroup(group, "main", ["searcher"], algorithm, [1]);
  expect(finalize(outage)).toEqual(finalize(healthy));
  const asWrong = finalize({ ...healthy, 2: rollout(0, []) });
  expect(asWrong["main"]?.mean).not.toBeCloseTo(finalize(healthy)["main"]?.mean ?? Number.NaN);
});

test("theirs: a sub-agent's text is re-tokenized with the main agent's tokenizer. Ours: ids as sampled, or the trajectory is refused", () => {
  const sampled: Trajectory = {
    agent: "searcher",
    version: 0,
    tokens: [5, 6, 7, 8, 9],
    actions: [
      [1, 3],
      [4, 5],
    ],
    logProbs: [-1, -2, -3],
  };
  expect(actionPositions_A(sampled)).toEqual([1, 2, 4]);
  // Another tokenizer gives another number of tokens, so spans and log-probs do not fit.
  expect(() => actionPositions_A({ ...sampled, tokens: [5, 67, 89] })).toThrow(
    /action span \[4, 5\) of 3 tokens .* lies outside \[1, 3\)/,
  );
  expect(() => actionPositions_A({ ...sampled, actions: [[1, 3]] })).toThrow(
    /2 action tokens but 3 behavior log-probs/,
  );
});

test("theirs: every long sub-agent trajectory scores 0. Ours: without an overlong penalty, length does not change a reward", () => {
  const address = { run: "test", phase: "train", step: 0, group: 0, rollout: 0 };
  const hash = "0".repeat(64);
  const id = "a".repeat(22);
  const trajectoryOf = (agent: string, length: number): Trajectory => {
    return { agent, version: 0, tokens: Array<number>(length).fill(1), actions: [], logProbs: [] };
  };
  const rewardAt = (length: number) => {
    const invocation: Invocation = {
      id,
      request: {
        ...{ address, questionId: "q", agent: "searcher", version: 0, call: 0, task: "t", closedBook: false },
        sampling: { temperature: 1, topP: 1, topK: 0 },
      },
      conversation: conversationOf("t", "found"),
      trajectory: trajectoryOf("searcher", length),
    };
    const outcome: FinishedOutcome = {
      ...{ status: "finished", address, questionId: "q", conversation: conversationOf("q", "a") },
      trajectory: trajectoryOf("main", 1),
      invocations: [{ id, agent: "searcher", key: id, sha256: hash }],
    };
    const verdicts = { correct: { score: 1 }, experts: [{ score: 0.5 }] };
    return scoreRollout(teamConfig(), outcome, [invocation], verdicts, hash).invocations["searcher"]?.[0]?.reward;
  };
  // 0.1 + 0.4*1 + 0.5*0.5, up to the context's 512 tokens.
  expect([1, 512].map(rewardAt)).toEqual([0.75, 0.75]);
});
