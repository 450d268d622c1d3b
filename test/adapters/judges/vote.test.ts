/** @file One verdict from several votes, its cost, and the failures of a judge. */
import { expect, test } from "vitest";
import { judgedRewards, judgeName } from "../../../adapters/judges/judged-rewards.ts";
import { judgeCorrectness, judgeQuality } from "../../../adapters/judges/vote.ts";
import { costOfFailure, JudgeConfig, totalCost } from "../../../core/contracts/judge.ts";
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
  expect(verdict.votes).toEqual(votes.map((right, i) => ({ score: Number(right), reason: `vote ${i}` })));
});

test("scores: the median decides, and one outlier does not move it", async () => {
  const model = scriptedJudge((_sent, call) => ({ reason: "", score: [0.4, 1, 0.5][call] ?? 0 }));
  expect((await judgeQuality({ model, config: judgeConfig({ votes: 3 }) }, "Look.", material)).score).toBe(0.5);
});

test("every vote is billed: in tokens always, in dollars if prices are set", async () => {
  const model = scriptedJudge(() => ({ reason: "", score: 1 }));
  const ask = async (changes: object) =>
    (await judgeQuality({ model, config: judgeConfig(changes) }, "", material)).cost;
  expect(await ask({ votes: 3 })).toEqual({ inputTokens: 300, outputTokens: 30, usd: null });
  // 3 * (100 * 2 + 10 * 8) / 1,000,000 = 0.00084
  const priced = await ask({ votes: 3, usdPerMillionTokens: { input: 2, output: 8 } });
  expect(priced).toMatchObject({ inputTokens: 300, outputTokens: 30, usd: expect.closeTo(0.00084, 12) });
  const unpriced = { inputTokens: 1, outputTokens: 1, usd: null };
  expect(totalCost([priced ?? unpriced, unpriced])).toEqual({ inputTokens: 301, outputTokens: 31, usd: null });
  expect(totalCost([])).toBeUndefined();
});

test("an answer identical to the reference costs nothing", async () => {
  const model = scriptedJudge(() => expect.fail("it was asked"));
  const { correct } = judgedRewards({ model, config: judgeConfig() });
  const question = { id: "q", kind: "k", level: 1, prompt: "?", answer: "Paris", facts: {} };
  const conversation = { prompt: "?", turns: [], stop: "answered", answer: " Paris\n", fault: null } as const;
  expect(await correct(question, { ...conversation, turns: [] })).toBe(1);
});

test("an invalid verdict is retryable; a refusal by the server is not", async () => {
  const failing = (error: MgrpoError) =>
    judgeQuality({ model: { complete: () => Promise.reject(error) }, config: judgeConfig() }, "", material);
  const odd = new MgrpoError("endpoint-refused", "not of the schema", { evidence: {} });
  await expect(failing(odd)).rejects.toMatchObject({ code: "judge-failed", retryable: true });
  const unpaid = new MgrpoError("endpoint-refused", "HTTP 402", { evidence: { status: 402 } });
  await expect(failing(unpaid)).rejects.toBe(unpaid);
  const filtered = new MgrpoError("endpoint-refused", "HTTP 400", {
    evidence: { status: 400, contentRefusal: "filtered" },
  });
  await expect(failing(filtered)).rejects.toMatchObject({ code: "judge-failed", retryable: true });
  const model = scriptedJudge(() => ({ reason: "", score: 7 }));
  await expect(judgeQuality({ model, config: judgeConfig() }, "", material)).rejects.toMatchObject({
    code: "judge-failed",
    message: expect.stringContaining("score"),
  });
});

test("answered votes are billed even without a verdict", async () => {
  const config = judgeConfig({ votes: 3, usdPerMillionTokens: { input: 2, output: 8 } });
  const once = (100 * 2 + 10 * 8) / 1e6;
  const refusing = (evidence: object) =>
    scriptedJudge((_sent, call) => {
      if (call === 1) throw new MgrpoError("endpoint-refused", "no", { evidence });
      return { reason: "", score: 1 };
    });
  const costOf = (model: LanguageModel) => judgeQuality({ model, config }, "", material).catch(costOfFailure);
  // Two valid votes, and an invalid one whose usage the server reports.
  expect(await costOf(refusing({ usage: { inputTokens: 100, outputTokens: 10 } }))).toMatchObject({
    ...{ inputTokens: 300, outputTokens: 30 },
    usd: expect.closeTo(3 * once, 12),
  });
  // Three votes that do not match the schema; two valid votes and one refused unread.
  expect(await costOf(scriptedJudge(() => ({ reason: "", score: 7 })))).toMatchObject({ inputTokens: 300 });
  expect(await costOf(refusing({ status: 402 }))).toMatchObject({ inputTokens: 200 });
  const unpaid = judgeQuality({ model: refusing({ status: 402 }), config }, "", material);
  await expect(unpaid).rejects.toMatchObject({ code: "endpoint-refused", retryable: false, evidence: { status: 402 } });
});

test("settings that cannot work are refused", () => {
  const refusal = (changes: object) =>
    JudgeConfig.safeParse({ ...judgeConfig(), ...changes }).error?.issues[0]?.message;
  expect(refusal({ votes: 2 })).toBe("must be odd, so that there is a majority");
  expect(refusal({ votes: 3, temperature: 0 })).toMatch(/greedy votes would all be the same: set votes to 1/);
  const { criteria: _, ...bare } = judgeConfig();
  expect(() => judgedRewards({ model: scriptedJudge(() => ({})), config: bare })).toThrow(/judge\.criteria is missing/);
});

test("another model, number of votes or criterion makes another judge; a price or a key does not", () => {
  const name = (changes: object, criteria: unknown = "Compare.") => judgeName(judgeConfig(changes), criteria);
  const others = [
    name({}),
    name({ votes: 3 }),
    name({ temperature: 1 }),
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
