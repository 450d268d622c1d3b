/** @file Rewards of rollouts with nested calls, worked by hand; masks, penalties and turn rewards; and every inconsistency that makes an outcome damaged. */
import { expect, test } from "vitest";
import type { Conversation, StopReason, ToolResponse } from "../../../core/contracts/conversation.ts";
import { digestOf } from "../../../core/contracts/names.ts";
import type { GroupRecord } from "../../../core/contracts/records.ts";
import type { FinishedOutcome, Invocation } from "../../../core/contracts/rollout.ts";
import { appVerdict, isComplete, scoreRollout, UNJUDGED, validateOutcome } from "../../../core/training/score.ts";
import { conversationOf, teamConfig } from "../../fakes/scripted-team.ts";

const address = { run: "test", phase: "train", step: 0, group: 0, rollout: 0 };
const limits = { turns: 2, calls: 2 };
const agents = {
  main: { model: "m", delegates: ["searcher"], limits },
  searcher: { model: "s", delegates: ["reader"], limits },
  reader: { model: "r" },
};
const config = teamConfig({ agents });
const hash = "0".repeat(64);
const refOf = ({ id, request: { agent } }: Invocation) => ({ id, agent, key: id, sha256: hash });

function invocation(
  path: readonly number[],
  stop: StopReason = "answered",
  below: readonly Invocation[] = [],
): Invocation {
  const [agent, callers, call] = [path.length === 1 ? "searcher" : "reader", path.slice(0, -1), path.at(-1) ?? 0];
  return {
    id: path.join("").padEnd(22, "x"),
    request: {
      ...{ address, questionId: "q0", agent, version: 0, call, task: "t", closedBook: false },
      ...(callers.length > 0 && { callers }),
      sampling: { temperature: 1, topP: 1, topK: 0 },
    },
    conversation: conversationOf("t", stop === "answered" ? "found" : null, stop),
    trajectory: { agent, version: 0, tokens: [1], actions: [], logProbs: [] },
    ...(below.length > 0 && { invocations: below.map(refOf) }),
  };
}

const outcomeOf = (invocations: readonly Invocation[]): FinishedOutcome => ({
  ...{ status: "finished", address, questionId: "q0", conversation: conversationOf("q", "a") },
  trajectory: { agent: "main", version: 0, tokens: [1], actions: [], logProbs: [] },
  invocations: invocations.map(refOf),
});

/** main calls the searcher twice; the first of these invocations calls the reader twice. */
function tree(firstStops: StopReason = "answered") {
  const readers = [invocation([0, 0]), invocation([0, 1])];
  return [invocation([0], firstStops, readers), ...readers, invocation([1])];
}

const rewardsOf = (
  invocations: readonly Invocation[],
  correct: number,
  experts: readonly number[],
  settings = config,
) => {
  const verdicts = { correct: { score: correct }, experts: experts.map((score) => ({ score })) };
  const scored = scoreRollout(settings, outcomeOf(invocations), invocations, verdicts, hash).invocations;
  const of = (agent: string) => (scored[agent] ?? []).map(({ reward, masked }) => [Number(reward.toFixed(6)), masked]);
  return { searcher: of("searcher"), reader: of("reader") };
};

test("eq 5, level by level: a reader's correctness is what its searcher passes on, not the main agent's own", () => {
  // searcher: 0.1 + 0.4*1 + 0.5*0.2 = 0.6, and 0.1 + 0.4 + 0.5*1 = 1
  // It passes on (0.4*1 + 0.5*0.2) / 0.9 = 0.555556. readers: 0.1 + 0.4*0.555556 + 0.5*1 = 0.822222, and 0.1 + 0.222222 + 0 = 0.322222
  expect(rewardsOf(tree(), 1, [0.2, 1, 0, 1])).toEqual({
    searcher: [0.6, 1].map((reward) => [reward, undefined]),
    reader: [0.822222, 0.322222].map((reward) => [reward, undefined]),
  });
});

test("eq 5 has the correctness of the main agent's answer, not its reward R_M", () => {
  const settings = teamConfig({ agents, algorithm: { mainReward: { format: 0.9, correct: 0.1 } } });
  // R_M = 0.9; R_S = 0.1 + 0.4*0 + 0.5*1
  expect(rewardsOf([invocation([0])], 0, [1], settings).searcher).toEqual([[0.6, undefined]]);
});

/** main -> searcher 0 -> readers 0 and 10 -> a reader each. */
function deepTree() {
  const [low, high] = [invocation([0, 0, 0]), invocation([0, 10, 0])];
  const [first, tenth] = [invocation([0, 0], "answered", [low]), invocation([0, 10], "answered", [high])];
  return [invocation([0], "answered", [first, tenth]), first, low, tenth, high];
}

test("each call inherits from the call that made it, however deep, and whatever the numbers of the calls", () => {
  // The searcher and reader 10 each pass on (0.4*1 + 0.5*1) / 0.9 = 1. Reader 0, with expert 0, passes on (0.4*1 + 0) / 0.9 = 0.444444.
  // The readers that readers 0 and 10 call: 0.1 + 0.4*0.444444 + 0.5*1 = 0.777778, and 0.1 + 0.4*1 + 0.5*1 = 1
  const rewards = [0.5, 0.777778, 1, 1];
  expect(rewardsOf(deepTree(), 1, [1, 0, 1, 1, 1]).reader).toEqual(rewards.map((reward) => [reward, undefined]));
});

test("a malformed conversation scores 0, unjudged", () => {
  const sub = invocation([0], "malformed");
  const outcome = { ...outcomeOf([sub]), conversation: conversationOf("q", null, "malformed") };
  expect(scoreRollout(config, outcome, [sub], { correct: UNJUDGED, experts: [UNJUDGED] }, hash)).toMatchObject({
    ...{ reward: 0, correct: 0, wellFormed: false },
    invocations: { searcher: [{ reward: 0, expert: 0 }] },
  });
});

test("a malformed caller passes on nothing: nobody read its report", () => {
  // readers: 0.1 + 0 + 0.5*1
  expect(rewardsOf(tree("malformed"), 1, [0, 1, 1, 1])).toEqual({
    searcher: [0, 1].map((reward) => [reward, undefined]),
    reader: [0.6, 0.6].map((reward) => [reward, undefined]),
  });
});

test("under `overlong: mask`, what a truncated caller passes on is unknown, so the calls that it made are masked too", () => {
  const mask = teamConfig({ agents, algorithm: { overlong: "mask" } });
  expect(rewardsOf(tree("token-limit"), 1, [0, 1, 1, 1], mask)).toEqual({
    searcher: [
      [0, true],
      [1, undefined],
    ],
    reader: [
      [0.6, "caller"],
      [0.6, "caller"],
    ],
  });
});

test.each([
  ["mask", "turn-limit", true],
  ["mask", "token-limit", true],
  ["mask", "malformed", undefined],
  ["zero", "turn-limit", undefined],
  ["zero", "token-limit", undefined],
] as const)("under `overlong: %s`, a conversation that ends with %s is masked: %s", (overlong, stop, masked) => {
  const settings = teamConfig({ agents, algorithm: { overlong } });
  expect(rewardsOf([invocation([0], stop)], 0, [0], settings).searcher).toEqual([[0, masked]]);
});

test("responses that overflow the context cost the whole overlong penalty, though they are in no trajectory", () => {
  const settings = teamConfig({ agents, algorithm: { overlongPenalty: { bufferTokens: 100, factor: 0.5 } } });
  const rewardsWith = (responses?: ToolResponse[], stop: StopReason = "token-limit") => {
    const turns = responses ? [{ text: "a turn", calls: [], responses }] : [];
    const conversation = { ...conversationOf("q", null, stop), turns };
    const sub = { ...invocation([0]), conversation };
    const verdicts = { correct: { score: 0 }, experts: [{ score: 0 }] };
    const scored = scoreRollout(settings, { ...outcomeOf([sub]), conversation }, [sub], verdicts, hash);
    return [scored.reward, scored.invocations["searcher"]?.[0]?.reward];
  };
  // Each trajectory has 1 token of 512. A turn that limits.turnTokens cut leaves room in the context, and so does the last of limits.turns.
  const page = [{ name: "visit", text: "a long page" }];
  expect(rewardsWith()).toEqual([0, 0]);
  expect(rewardsWith([])).toEqual([0, 0]);
  expect(rewardsWith(page, "turn-limit")).toEqual([0, 0]);
  expect(rewardsWith(page)).toEqual([-0.5, -0.5]);
});

test("scored invocations are in call order, whatever their order in the outcome", () => {
  const [first, a, b, second] = tree() as [Invocation, Invocation, Invocation, Invocation];
  const shuffled = [b, second, a, first];
  expect(rewardsOf(shuffled, 1, [0, 1, 1, 0.2])).toEqual(rewardsOf(tree(), 1, [0.2, 1, 0, 1]));
});

/** The conversation with this many turns; what is in them does not matter. */
const withTurns = (conversation: Conversation, count: number): Conversation => ({
  ...conversation,
  turns: Array.from({ length: count }, () => ({ text: "a turn", calls: [], responses: [] })),
});

test("a rollout's score counts its sampled tokens, sums what judging cost, and names the objects that were judged", () => {
  const sampled = {
    agent: "main",
    version: 0,
    tokens: [1, 2, 3],
    actions: [[1, 3] as [number, number]],
    logProbs: [-1, -1],
  };
  const sub = invocation([0]);
  const outcome = {
    ...outcomeOf([sub]),
    trajectory: sampled,
    invocations: [{ ...refOf(sub), sha256: "1".repeat(64) }],
  };
  const cost = { inputTokens: 3, outputTokens: 1, usd: 0.5 };
  const scored = scoreRollout(
    config,
    outcome,
    [{ ...sub, trajectory: { ...sampled, agent: "searcher" } }],
    { correct: { score: 1, cost }, experts: [{ score: 0.5, cost }] },
    hash,
  );
  expect(scored).toEqual({
    ...{ reward: 1, correct: 1, wellFormed: true, tokens: 4, digest: digestOf(hash) },
    judged: { inputTokens: 6, outputTokens: 2, usd: 1 },
    invocations: { searcher: [{ id: sub.id, reward: 0.75, expert: 0.5, digest: digestOf("1".repeat(64)) }] },
  });
});

test("rewards that an app gives are the verdicts on its rollout and on its sub-agents; without them, the recipe's rewards decide", () => {
  const outcome = outcomeOf([]);
  expect(appVerdict(outcome)).toBeUndefined();
  expect(appVerdict(outcome, "searcher")).toBeUndefined();
  const app = { branches: [], counts: {}, reward: 0, rewards: { searcher: 0.25 } };
  const given: FinishedOutcome = { ...outcome, app };
  expect(appVerdict(given)).toEqual({ score: 0 });
  expect(appVerdict(given, "searcher")).toEqual({ score: 0.25 });
  expect(appVerdict(given, "reader")).toBeUndefined();
  expect(appVerdict({ ...outcome, app: { branches: [], counts: {}, reward: 1 } }, "searcher")).toBeUndefined();
});

/** The main agent and one searcher have two turns each. If `subTurns` is null, the searcher's conversation is not well-formed. */
function scoreTurns(turnWeight: number, mainTurns: (number | null)[] | undefined, subTurns?: (number | null)[] | null) {
  const settings = teamConfig({ agents, algorithm: { turnWeight } });
  const sub = invocation([0], subTurns === null ? "malformed" : "answered");
  const conversed = { ...sub, conversation: withTurns(sub.conversation, 2) };
  const outcome = { ...outcomeOf([sub]), conversation: withTurns(conversationOf("q", "a"), 2) };
  const verdicts = {
    correct: { score: 1, ...(mainTurns && { turns: mainTurns }) },
    experts: [{ score: 1, ...(subTurns && { turns: subTurns }) }],
  };
  const scored = scoreRollout(settings, outcome, [conversed], verdicts, hash);
  return [scored.turns, scored.invocations["searcher"]?.[0]?.turns];
}

test("turn rewards are recorded to six decimals if the algorithm uses them and the conversation is well-formed", () => {
  expect(scoreTurns(0.5, [1 / 3, null], [0, 1])).toEqual([
    [0.333333, null],
    [0, 1],
  ]);
  expect(scoreTurns(0.5, [1, null], null)).toEqual([[1, null], undefined]);
  expect(scoreTurns(0, [1, null], [0, 1])).toEqual([undefined, undefined]);
});

test("an agent that is not trained needs no turn rewards", () => {
  const frozen = { ...agents, searcher: { ...agents.searcher, trained: false } };
  const settings = teamConfig({ agents: frozen, algorithm: { turnWeight: 0.5 } });
  const sub = invocation([0]);
  const verdicts = { correct: { score: 1, turns: [] }, experts: [{ score: 1 }] };
  expect(scoreRollout(settings, outcomeOf([sub]), [sub], verdicts, hash).invocations["searcher"]).toHaveLength(1);
});

test("a verdict without an entry for each turn is refused; the error names the agent, the method of the rewards and the remedy", () => {
  const refusal = (fault: string, method: string) =>
    expect.objectContaining({
      code: "rewards-invalid",
      message: `the verdict on ${fault}, and turnWeight is 0.5: return { score, turns } from ${method}() of the recipe's rewards, with a number from 0 to 1 or null per turn, or set turnWeight to 0`,
    });
  expect(() => scoreTurns(0.5, undefined, [0, 1])).toThrow(refusal("'main' rewards no turns", "correct"));
  expect(() => scoreTurns(0.5, [1, 0], [0])).toThrow(refusal("'searcher' rewards 1 turns of 2", "expert"));
});

const faultIn = (outcome: FinishedOutcome, invocations: readonly Invocation[]) =>
  validateOutcome(
    address,
    { groups: ["q0"], policy: { main: 0, searcher: 0, reader: 0 } },
    "main",
    outcome,
    invocations,
  );

const OTHER_ADDRESSES = [{ run: "other" }, { phase: "eval:x" }, { step: 1 }, { group: 1 }, { rollout: 1 }];

test.each(OTHER_ADDRESSES)("an outcome, or an invocation, of another rollout is damaged: %o", (other) => {
  const sub = invocation([0]);
  const elsewhere = { ...address, ...other };
  expect(faultIn({ ...outcomeOf([sub]), address: elsewhere }, [sub])).toBe(
    `its outcome belongs to ${JSON.stringify(elsewhere)}`,
  );
  const stray = { ...sub, request: { ...sub.request, address: elsewhere } };
  expect(faultIn(outcomeOf([stray]), [stray])).toBe(`invocation ${sub.id} belongs to ${JSON.stringify(elsewhere)}`);
});

test("an outcome of another question, or a trajectory of another agent or version, is damaged", () => {
  const sub = invocation([0]);
  const outcome = outcomeOf([sub]);
  const { trajectory } = sub;
  expect(faultIn({ ...outcome, questionId: "q1" }, [sub])).toBe("its question is q1, but q0 was planned");
  const faultOf = (changes: object) => faultIn(outcome, [{ ...sub, trajectory: { ...trajectory, ...changes } }]);
  expect(faultOf({})).toBeUndefined();
  expect(faultOf({ agent: "reader" })).toBe("a trajectory of searcher names agent reader");
  expect(faultOf({ version: 3 })).toBe("searcher sampled from version 3, but 0 was planned");
  const planner = { ...trajectory, agent: "main", version: 2 };
  expect(faultIn({ ...outcome, trajectory: planner }, [sub])).toBe("main sampled from version 2, but 0 was planned");
});

test("a group is complete once each of its K rollouts is scored or lost", () => {
  const group = (rollouts: object) => ({ rolloutsPerQuestion: 2, rollouts }) as GroupRecord;
  expect(
    [{}, { 1: {} }, { 0: { excluded: "judge: away" }, 1: {} }].map((rollouts) => isComplete(group(rollouts))),
  ).toEqual([false, false, true]);
});

test("an outcome without an invocation that another one names, or with one that no caller names, is damaged", () => {
  const faultOf = (invocations: readonly Invocation[]) => faultIn(outcomeOf(invocations), invocations);
  const [first, a, b, second] = tree() as [Invocation, Invocation, Invocation, Invocation];
  expect(faultOf([first, a, b, second])).toBeUndefined();
  expect(faultOf([first, a, second])).toBe(`invocation ${first.id} names ${b.id}, which the outcome does not`);
  expect(faultOf([first, a, b, invocation([1, 0]), second])).toMatch(/^no caller names invocation 10x/);
  expect(faultOf([a, b])).toMatch(/^no caller names invocation 00x/);
  expect(faultOf([{ ...first, invocations: [refOf(a)] }, a, b, second])).toMatch(/^no caller names invocation 01x/);
  expect(faultOf(deepTree())).toBeUndefined();
});
