/** @file One verdict from several votes, its cost, and the failures of a judge; a judge's settings and name. */
import { expect, test } from "vitest";
import { judgedRewards, judgeName } from "../../../adapters/judges/judged-rewards.ts";
import { judgeCorrectness, judgeQuality } from "../../../adapters/judges/vote.ts";
import type { Conversation } from "../../../core/contracts/conversation.ts";
import { costOfFailure, faultOfFailure, JudgeConfig, totalCost } from "../../../core/contracts/judge.ts";
import { MgrpoError } from "../../../core/errors.ts";
import type { LanguageModel } from "../../../core/language-model-ports.ts";
import { judgeConfig, scriptedJudge } from "../../fakes/scripted-judge.ts";

const material = { question: "?", reference: "a", answer: "b" };

test.each([
  [[true, false, true], 1],
  [[false, false, true], 0],
  [[true], 1],
])("the majority of %j is %d", async (votes, score) => {
  const model = scriptedJudge((_sent, call) => ({
    reason: `vote ${call}`,
    stated: "b",
    correct: votes[call] ?? false,
  }));
  const verdict = await judgeCorrectness({ model, config: judgeConfig({ votes: votes.length }) }, "Compare.", material);
  expect(verdict.score).toBe(score);
  expect(verdict.votes).toEqual(votes.map((correct, i) => ({ score: Number(correct), reason: `vote ${i}` })));
});

test("the verdict of three valid scores is their median", async () => {
  const model = scriptedJudge((_sent, call) => ({ reason: "", score: [0.4, 1, 0.5][call] ?? 0 }));
  expect((await judgeQuality({ model, config: judgeConfig({ votes: 3 }) }, "Look.", { input: material })).score).toBe(
    0.5,
  );
});

test("every vote is billed: in tokens always, in dollars if prices are set", async () => {
  const model = scriptedJudge(() => ({ reason: "", score: 1 }));
  const ask = async (changes: object) =>
    (await judgeQuality({ model, config: judgeConfig(changes) }, "", { input: material })).cost;
  expect(await ask({ votes: 3 })).toEqual({ inputTokens: 300, outputTokens: 30, usd: null });
  // 3 * (100 * 2 + 10 * 8) / 1,000,000 = 0.00084
  const priced = await ask({ votes: 3, usdPerMillionTokens: { input: 2, output: 8 } });
  expect(priced).toMatchObject({ inputTokens: 300, outputTokens: 30, usd: expect.closeTo(0.00084, 12) });
  const unpriced = { inputTokens: 1, outputTokens: 1, usd: null };
  expect(totalCost([priced ?? unpriced, unpriced])).toEqual({ inputTokens: 301, outputTokens: 31, usd: null });
  expect(totalCost([])).toBeUndefined();
});

test("an answer that equals the reference, apart from surrounding whitespace, is correct without a request to the judge", async () => {
  const model = scriptedJudge(() => expect.fail("it was asked"));
  const { correct } = judgedRewards({ model, config: judgeConfig() });
  const question = { id: "q", kind: "k", level: 1, prompt: "?", answer: "Paris", facts: {} };
  const conversation = { prompt: "?", turns: [], stop: "answered", answer: " Paris\n", fault: null } as const;
  expect(await correct(question, { ...conversation, turns: [] })).toBe(1);
});

const malformed = new MgrpoError("endpoint-refused", "not of the schema", {
  evidence: { usage: { inputTokens: 100, outputTokens: 10 } },
});
const outage = new MgrpoError("endpoint-unavailable", "HTTP 503", { retryable: true, evidence: { status: 503 } });
const unpaid = new MgrpoError("endpoint-refused", "HTTP 402", { evidence: { status: 402 } });
const filtered = new MgrpoError("endpoint-refused", "HTTP 400", {
  evidence: { status: 400, contentRefusal: "filtered" },
});

const unfinished = new MgrpoError("endpoint-refused", "HTTP 400", {
  evidence: { status: 400, answerFault: "unfinished" },
});

/** A judge that casts these votes on an answer, in order: correct, incorrect, or an error. */
function voting(...votes: (boolean | MgrpoError)[]) {
  return scriptedJudge((_sent, call) => {
    const vote = votes[call] ?? expect.fail(`vote ${call} was not expected`);
    if (typeof vote !== "boolean") throw vote;
    return { reason: "", stated: "b", correct: vote };
  });
}

test.each([
  ["one malformed", [true, malformed, true], 1, 300],
  ["one that is lost to an outage", [outage, false, false], 0, 200],
  ["one refused", [true, true, unpaid], 1, 200],
  ["a tie, decided by one more vote", [true, malformed, false, true], 1, 400],
] as const)("a failed vote of three does not discard the other two: %s", async (_name, votes, score, inputTokens) => {
  const model = voting(...votes);
  const verdict = await judgeCorrectness({ model, config: judgeConfig({ votes: 3 }) }, "Compare.", material);
  expect(verdict).toMatchObject({ score, cost: { inputTokens } });
  expect(model.requests).toHaveLength(votes.length);
});

test("the verdict of two valid scores is their mean", async () => {
  const model = scriptedJudge((_sent, call) => ({ reason: "", score: [0.4, 7, 0.8][call] ?? 0 }));
  const verdict = await judgeQuality({ model, config: judgeConfig({ votes: 3 }) }, "Look.", { input: material });
  expect(verdict.score).toBeCloseTo(0.6);
});

test.each([
  ["malformed answers", [malformed, malformed, true], "unusable-answer"],
  ["an outage, which says nothing about the text", [malformed, outage, true], "outage"],
  ["a refused text", [filtered, filtered, true], "refused-text"],
  ["answers that the server withholds", [unfinished, unfinished, true], "unusable-answer"],
] as const)("if fewer than half of the votes are valid, the verdict fails: %s", async (_name, votes, fault) => {
  const failed = await judgeCorrectness(
    { model: voting(...votes), config: judgeConfig({ votes: 3 }) },
    "Compare.",
    material,
  ).catch((error: unknown) => error);
  expect(faultOfFailure(failed)).toBe(fault);
});

test("a tie whose deciding vote fails too gives no verdict", async () => {
  const model = voting(true, malformed, false, malformed);
  const tied = judgeCorrectness({ model, config: judgeConfig({ votes: 3 }) }, "Compare.", material);
  await expect(tied).rejects.toMatchObject({ code: "judge-failed", evidence: { cost: { inputTokens: 400 } } });
});

test("if the reservation for the deciding vote fails, the verdict fails with the cost of the votes before it", async () => {
  const unreachable = new MgrpoError("store-unreachable", "no answer", { retryable: true });
  let reservations = 0;
  const reserve = async () => {
    if (++reservations === 2) throw unreachable;
  };
  const judge = { model: voting(true, malformed, false), config: judgeConfig({ votes: 3 }) };
  const { signal } = new AbortController();
  await expect(judgeCorrectness(judge, "Compare.", material, { signal, reserve })).rejects.toMatchObject({
    code: "store-unreachable",
    retryable: true,
    evidence: { cost: { inputTokens: 300 } },
  });
});

test("what a verdict may cost is reserved before the first request, and the abort signal reaches the model", async () => {
  const reserved: number[] = [];
  const { signal } = new AbortController();
  const model: LanguageModel = {
    async complete(_request, received) {
      expect(reserved).toHaveLength(1);
      expect(received).toBe(signal);
      return { text: JSON.stringify({ reason: "", score: 1 }), usage: { inputTokens: 100, outputTokens: 10 } };
    },
  };
  const config = judgeConfig({ votes: 3, maxTokens: 1000, usdPerMillionTokens: { input: 0, output: 10 } });
  const reserve = async (usd: number) => void reserved.push(usd);
  await judgeQuality({ model, config }, "", { input: material }, { signal, reserve });
  // 3 votes * 1,000 tokens * $10 / 1,000,000
  expect(reserved).toEqual([0.03]);
});

test("work whose quotations the server refuses is judged without them; work that it still refuses is not judged", async () => {
  const page = "how to build a bomb";
  const conversation: Conversation = {
    prompt: "look it up",
    turns: [{ text: "I search.", calls: [], responses: [{ name: "visit", text: page }] }],
    stop: "answered",
    answer: "done",
    fault: null,
  };
  const question = { id: "q", kind: "k", level: 1, prompt: "?", answer: "a", facts: {} };
  const refusing = (isRefused: (sent: string) => boolean) => {
    const model = scriptedJudge((sent) => {
      if (isRefused(JSON.stringify(sent))) throw filtered;
      return { reason: "", score: 0.75 };
    });
    return { model, ...judgedRewards({ model, config: judgeConfig() }) };
  };
  const picky = refusing((sent) => sent.includes(page));
  expect(await picky.expert(question, "searcher", conversation)).toMatchObject({ score: 0.75 });
  const messages = picky.model.requests.map(({ messages: sent }) => sent.at(-1)?.content ?? "");
  expect(messages.map((sent) => sent.includes(page))).toEqual([true, false]);
  expect(messages[1]).toContain("I search.");
  const failed = await Promise.resolve(refusing(() => true).expert(question, "searcher", conversation)).catch(
    (error: unknown) => error,
  );
  expect(faultOfFailure(failed)).toBe("refused-text");
});

test("correctness is judged by question, reference and final answer alone: no page can make the server refuse it", async () => {
  const model = scriptedJudge(() => ({ reason: "", stated: "b", correct: true }));
  const { correct } = judgedRewards({ model, config: judgeConfig() });
  const responses = [{ name: "visit", text: "a page" }];
  const turns = [{ text: "I search.", calls: [], responses }];
  const question = { id: "q", kind: "k", level: 1, prompt: "?", answer: "a", facts: {} };
  await correct(question, { prompt: "?", turns, stop: "answered", answer: "b", fault: null });
  const sent = model.requests[0]?.messages.at(-1)?.content ?? "";
  expect(JSON.parse(sent)).toEqual({ question: "?", reference: "a", answer: "b" });
});

test("an answer that is not a verdict, or a filtered text, fails only the verdict; another refusal is passed on unchanged", async () => {
  const failing = (error: MgrpoError) =>
    judgeQuality({ model: { complete: () => Promise.reject(error) }, config: judgeConfig() }, "", { input: material });
  await expect(failing(malformed)).rejects.toMatchObject({ code: "judge-failed", retryable: true });
  await expect(failing(unpaid)).rejects.toBe(unpaid);
  await expect(failing(filtered)).rejects.toMatchObject({ code: "judge-failed" });
  const model = scriptedJudge(() => ({ reason: "", score: 7 }));
  await expect(judgeQuality({ model, config: judgeConfig() }, "", { input: material })).rejects.toMatchObject({
    code: "judge-failed",
    message: expect.stringContaining("score"),
  });
});

test("answered votes are billed even without a verdict", async () => {
  const config = judgeConfig({ votes: 3, usdPerMillionTokens: { input: 2, output: 8 } });
  const once = (100 * 2 + 10 * 8) / 1e6;
  const costOf = (...votes: (boolean | MgrpoError)[]) =>
    judgeCorrectness({ model: voting(...votes), config }, "", material).catch(costOfFailure);
  // One valid vote, and two malformed ones whose usage the server reports.
  expect(await costOf(true, malformed, malformed)).toMatchObject({
    ...{ inputTokens: 300, outputTokens: 30 },
    usd: expect.closeTo(3 * once, 12),
  });
  // One valid vote, and two that were refused unread.
  expect(await costOf(unpaid, true, unpaid)).toMatchObject({ inputTokens: 100 });
  const refused = judgeCorrectness({ model: voting(unpaid, true, unpaid), config }, "", material);
  await expect(refused).rejects.toMatchObject({
    code: "endpoint-refused",
    retryable: false,
    evidence: { status: 402 },
  });
});

test("an attempt that timed out is billed at its maximum: its server may have charged for it", async () => {
  const config = judgeConfig({ maxTokens: 1000, usdPerMillionTokens: { input: 0, output: 10 } });
  const timesOut = (thenAnswers: boolean): LanguageModel => ({
    async complete({ onUnknownUsage }) {
      onUnknownUsage?.();
      if (!thenAnswers) throw new MgrpoError("endpoint-unavailable", "too slow", { retryable: true });
      return { text: JSON.stringify({ reason: "", score: 1 }), usage: { inputTokens: 100, outputTokens: 10 } };
    },
  });
  const costOf = (thenAnswers: boolean) =>
    judgeQuality({ model: timesOut(thenAnswers), config }, "", { input: material }).then(
      ({ cost }) => cost,
      costOfFailure,
    );
  // An attempt costs at most 1,000 tokens * $10 / 1,000,000; the answer cost 10 tokens.
  expect(await costOf(true)).toEqual({ inputTokens: 100, outputTokens: 10, usd: expect.closeTo(0.0101, 12) });
  expect(await costOf(false)).toEqual({ inputTokens: 0, outputTokens: 0, usd: expect.closeTo(0.01, 12) });
});

test("settings that cannot work are refused", () => {
  const refusal = (changes: object) =>
    JudgeConfig.safeParse({ ...judgeConfig(), ...changes }).error?.issues[0]?.message;
  expect(refusal({ votes: 2 })).toBe("must be odd, so that there is a majority");
  expect(refusal({ votes: 3, temperature: 0 })).toMatch(/greedy votes would all be the same: set votes to 1/);
  const { criteria: _, ...bare } = judgeConfig();
  expect(() => judgedRewards({ model: scriptedJudge(() => ({})), config: bare })).toThrow(/judge\.criteria is missing/);
});

test("a judge's name depends on its model, votes, temperature, maxTokens and criteria, but not on a price, a key or the number of attempts", () => {
  const name = (changes: object, criteria: unknown = "Compare.") => judgeName(judgeConfig(changes), criteria);
  const others = [
    name({}),
    name({ votes: 3 }),
    name({ temperature: 1 }),
    name({ maxTokens: 9 }),
    name({ model: "openai:http://127.0.0.1:1/v1#other" }),
    name({}, "Look."),
  ];
  expect(new Set(others).size).toBe(others.length);
  expect(name({ usdPerMillionTokens: { input: 1, output: 1 } })).toBe(name({}));
  const keyed = {
    provider: "openai",
    baseUrl: "http://127.0.0.1:1/v1",
    model: "judge",
    keyVariable: "KEY",
    attempts: 9,
  };
  expect(name({ model: keyed })).toBe(name({}));
  expect(name({})).toMatch(/^[0-9a-f]{16}$/);
});
