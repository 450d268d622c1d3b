/** @file What happens to a rollout when its app throws, gives up, sets rewards or returns an invalid result, or when a server refuses to sample. */
import { expect, test } from "vitest";
import type { AppCall } from "../../../core/contracts/app-rollout.ts";
import { objectKeys } from "../../../core/contracts/keys.ts";
import { parseJson } from "../../../core/contracts/parse.ts";
import { Outcome } from "../../../core/contracts/rollout.ts";
import { MgrpoError } from "../../../core/errors.ts";
import type { PolicyEngine } from "../../../core/ports.ts";
import type { Rollout } from "../../../core/recipe.ts";
import { recipeRunner } from "../../../gpu-workers/gateway/runners.ts";
import type { WorkerParts } from "../../../gpu-workers/worker-process.ts";
import { complete, relayApp } from "../../fixtures/relay/app.ts";
import { relayEngine } from "../../fixtures/relay/policy.ts";
import { appConfig } from "../../fixtures/relay/start.ts";
import { recordsOf, startRelay } from "../../fixtures/relay/world.ts";

const quick = { steps: 1, evaluation: { suites: [] } };

async function runOnce(app: Rollout, changes: object = {}, searcher: Partial<WorkerParts> = {}) {
  const config = appConfig({ ...quick, ...changes });
  const { memory, work } = await startRelay(config);
  await Promise.allSettled([work({}, { runner: recipeRunner(app) }), work({ agent: "searcher" }, searcher)]);
  const outcomes = await Promise.all(
    [0, 1].flatMap((group) =>
      [0, 1].map(async (rollout) => {
        const key = objectKeys.outcome({ run: config.run, phase: "train", step: 0, group, rollout });
        const bytes = await memory.objects.get(key);
        return bytes && parseJson(Outcome, bytes, key);
      }),
    ),
  );
  return { records: await recordsOf(memory, config), outcomes };
}

test("an app that throws is retried, and the run ends with the same records as if it had not thrown", async () => {
  const thrown = new Set<string>();
  const flaky: Rollout = async (context) => {
    const key = context.question.id;
    if (thrown.has(key)) return relayApp(context);
    thrown.add(key);
    // The app calls an agent before it throws: the turns of the failed attempt are discarded.
    await complete(context.agents["main"] as never, { messages: [{ role: "user", content: context.question.prompt }] });
    throw new Error("a bug in the app");
  };
  const { records } = await runOnce(flaky);
  expect(thrown.size).toBe(2);
  expect(records).toEqual((await runOnce(relayApp)).records);
});

test("rollouts whose app always throws are excluded, with the error as the reason; they do not get a reward of 0", async () => {
  const { records, outcomes } = await runOnce(() => Promise.reject(new Error("no database")), {
    limits: { attempts: 2, invocationSeconds: 10, rolloutSeconds: 20, lostFraction: 1 },
  });
  for (const outcome of outcomes) {
    expect(outcome).toMatchObject({ status: "failed", reason: expect.stringContaining("no database") });
  }
  const scores = (records.steps[0]?.groups ?? []).flatMap(({ rollouts }) => Object.values(rollouts));
  expect(scores).toHaveLength(4);
  for (const score of scores) expect(score).toEqual({ excluded: expect.stringContaining("no database") });
});

test("`failed` and an empty answer are the team's own failures: the reward is 0", async () => {
  const failing: Rollout = async ({ question }) =>
    question.id.endsWith("1") ? { failed: "it got lost" } : { answer: " " };
  const { records, outcomes } = await runOnce(failing);
  for (const outcome of outcomes) {
    expect(outcome).toMatchObject({ status: "finished", conversation: { stop: "malformed", answer: null } });
  }
  const scores = (records.steps[0]?.groups ?? []).flatMap(({ rollouts }) => Object.values(rollouts));
  expect(scores).toHaveLength(4);
  for (const score of scores) expect(score).toMatchObject({ reward: 0, wellFormed: false });
});

test("a rollout whose app throws because an agent reached a limit finishes at that limit, without an answer", async () => {
  const talkative: Rollout = async ({ question, agents, signal }) => {
    const messages = [{ role: "user", content: `${question.prompt} ${"word ".repeat(4000)}` }];
    await complete(agents["main"] as never, { messages }, signal);
    return { answer: "never" };
  };
  const { outcomes } = await runOnce(talkative);
  for (const outcome of outcomes) {
    expect(outcome).toMatchObject({ status: "finished", conversation: { stop: "token-limit", answer: null } });
  }
});

test("rewards from the app replace the recipe's", async () => {
  const judging: Rollout = async (context) => ({
    ...(await relayApp(context)),
    reward: 0.5,
    rewards: { searcher: 0.75 },
  });
  const { records } = await runOnce(judging);
  const scores = (records.steps[0]?.groups ?? []).flatMap(({ rollouts }) => Object.values(rollouts));
  const correct = scores.flatMap((score) => ("correct" in score && score.wellFormed ? [score.correct] : []));
  expect(new Set(correct)).toEqual(new Set([0.5]));
  const experts = scores.flatMap((score) => ("invocations" in score ? (score.invocations["searcher"] ?? []) : []));
  expect(experts.map(({ expert }) => expert)).toContain(0.75);
  for (const { expert } of experts) expect([0, 0.75]).toContain(expert);
});

test.each([
  ["a reward above 1", { reward: 2 }],
  ["an undefined result", undefined],
  ["a reward for an unknown agent", { answer: "x", reward: 1, rewards: { unknown: 1 } }],
])("%s halts the run: another attempt would return the same", async (_what, result) => {
  let calls = 0;
  const { records } = await runOnce(async () => {
    calls += 1;
    return result as never;
  });
  expect(records).toMatchObject({ status: "halted", reason: expect.stringMatching(/app/) });
  // At most one attempt at each of the four rollouts.
  expect(calls).toBeLessThanOrEqual(4);
});

test("an app that is not an async function may return a result, or throw", async () => {
  const question = { id: "q", kind: "k", level: 1, prompt: "?", facts: null };
  const call: AppCall = { question, agents: {}, seconds: 1 };
  const run = (app: () => unknown) => recipeRunner(app as unknown as Rollout).run(call, new AbortController().signal);
  await expect(run(() => ({ answer: "x" }))).resolves.toEqual({ answer: "x" });
  const thrown = run(() => {
    throw new Error("a bug in the app");
  });
  await expect(thrown).rejects.toThrow("a bug in the app");
});

test("a server that refuses to sample for a sub-agent halts the run, and no rollout is abandoned", async () => {
  const refusal = new MgrpoError("endpoint-refused", "HTTP 402: it wants to be paid first");
  const refusing: PolicyEngine = {
    ...relayEngine,
    openSampler: async () => ({ sample: () => Promise.reject(refusal), release() {}, async close() {} }),
  };
  const { records, outcomes } = await runOnce(relayApp, {}, { engineOf: () => refusing });
  expect(records).toMatchObject({ status: "halted", reason: refusal.message });
  for (const outcome of outcomes) expect(outcome?.status).not.toBe("failed");
});
