/** @file Rewards of a rollout of three levels, worked by hand, and outcomes whose invocations contradict each other. */
import { expect, test } from "vitest";
import type { StopReason, ToolResponse } from "../../../core/contracts/conversation.ts";
import type { FinishedOutcome, Invocation } from "../../../core/contracts/rollout.ts";
import { scoreRollout, validateOutcome } from "../../../core/training/score.ts";
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

test("responses that overflow the context cost the whole overlong penalty, though they are in no trajectory", () => {
  const settings = teamConfig({ agents, algorithm: { overlongPenalty: { bufferTokens: 100, factor: 0.5 } } });
  const rewardsWith = (responses: ToolResponse[]) => {
    const turns = [{ text: "a turn", calls: [], responses }];
    const conversation = { ...conversationOf("q", null, "token-limit"), turns };
    const sub = { ...invocation([0]), conversation };
    const verdicts = { correct: { score: 0 }, experts: [{ score: 0 }] };
    const scored = scoreRollout(settings, { ...outcomeOf([sub]), conversation }, [sub], verdicts, hash);
    return [scored.reward, scored.invocations["searcher"]?.[0]?.reward];
  };
  // Each trajectory has 1 token of 512. A turn that limits.turnTokens cut leaves room in the context.
  expect(rewardsWith([])).toEqual([0, 0]);
  expect(rewardsWith([{ name: "visit", text: "a long page" }])).toEqual([-0.5, -0.5]);
});

test("scored invocations are in call order, whatever their order in the outcome", () => {
  const [first, a, b, second] = tree() as [Invocation, Invocation, Invocation, Invocation];
  const shuffled = [b, second, a, first];
  expect(rewardsOf(shuffled, 1, [0, 1, 1, 0.2])).toEqual(rewardsOf(tree(), 1, [0.2, 1, 0, 1]));
});

test("an outcome without an invocation that another one names, or with one that no caller names, is damaged", () => {
  const step = { groups: ["q0"], policy: { main: 0, searcher: 0, reader: 0 } };
  const faultOf = (invocations: readonly Invocation[]) =>
    validateOutcome(address, step, "main", outcomeOf(invocations), invocations);
  const [first, a, b, second] = tree() as [Invocation, Invocation, Invocation, Invocation];
  expect(faultOf([first, a, b, second])).toBeUndefined();
  expect(faultOf([first, a, second])).toBe(`invocation ${first.id} names ${b.id}, which the outcome does not`);
  expect(faultOf([first, a, b, invocation([1, 0]), second])).toMatch(/^no caller names invocation 10x/);
  expect(faultOf([a, b])).toMatch(/^no caller names invocation 00x/);
});
