/** @file The rewards that an app gives, over HTTP while its attempt runs or in its result: each is taken once, even if repeated. */
import { expect, test } from "vitest";
import type { AgentAccess, AppResult } from "../../../core/contracts/app-rollout.ts";
import { openHarness } from "./harness.ts";

async function reward({ baseURL, apiKey }: AgentAccess, body: unknown) {
  const headers = { authorization: `Bearer ${apiKey}`, "content-type": "application/json" };
  const response = await fetch(`${baseURL}/rewards`, { method: "POST", headers, body: JSON.stringify(body) });
  const text = await response.text();
  return { status: response.status, code: text === "" ? undefined : JSON.parse(text).error.code };
}

test("each reward is taken once, repeated or not, in parts or at once, with any agent's key", async () => {
  const { main, searcher, outcome } = (await openHarness()).open();
  expect(await reward(main, { reward: 0.7 })).toEqual({ status: 204 });
  expect(await reward(searcher, { rewards: { searcher: 0.5 } })).toEqual({ status: 204 });
  expect(await reward(main, { reward: 0.7, rewards: { searcher: 0.5 } })).toEqual({ status: 204 });
  expect((await outcome({ answer: "x" })).app).toMatchObject({ reward: 0.7, rewards: { searcher: 0.5 } });
});

test.each<[string, unknown, number, string]>([
  ["another reward", { reward: 0.8 }, 409, "reward_refused"],
  ["another reward for a sub-agent", { reward: 0.7, rewards: { searcher: 0 } }, 409, "reward_refused"],
  ["a reward for an unknown agent", { rewards: { stranger: 1 } }, 409, "reward_refused"],
  ["a reward above 1", { reward: 2 }, 400, "invalid_value"],
  ["no reward", {}, 400, "invalid_value"],
  ["an unknown parameter", { reward: 0.7, agent: "searcher" }, 400, "unknown_parameter"],
])("%s is refused, and changes nothing", async (_what, body, status, code) => {
  const { main, outcome } = (await openHarness()).open();
  await reward(main, { reward: 0.7, rewards: { searcher: 0.5 } });
  expect(await reward(main, body)).toEqual({ status, code });
  expect((await outcome({ answer: "x" })).app).toMatchObject({ reward: 0.7, rewards: { searcher: 0.5 } });
});

test("a wrong key, or one of an attempt that is over, is refused", async () => {
  const harness = await openHarness();
  const { main, outcome } = harness.open();
  expect(await reward({ ...main, apiKey: "sk-1" }, { reward: 1 })).toEqual({ status: 401, code: "invalid_api_key" });
  const { app } = await outcome({ answer: "x" });
  expect(app).not.toHaveProperty("reward");
  expect(await reward(main, { reward: 1 })).toEqual({ status: 401, code: "attempt_over" });
});

test("an app's result adds to what it gave over HTTP, and must not contradict it", async () => {
  const harness = await openHarness();
  const app = (result: AppResult) =>
    harness.run(async ({ agents }) => {
      const { main } = agents;
      if (!main) return expect.fail();
      expect(await reward(main, { reward: 0.25 })).toEqual({ status: 204 });
      return result;
    });
  expect((await app({ answer: "x", rewards: { searcher: 1 } })).app).toMatchObject({
    ...{ reward: 0.25, rewards: { searcher: 1 } },
  });
  await expect(app({ answer: "x", reward: 0.5 })).rejects.toMatchObject({
    ...{ code: "app-failed", retryable: false },
    message: expect.stringContaining("the app gave reward 0.25 and then 0.5"),
  });
});

test("an attempt that has a reward above 0 cannot fail: a failure means reward 0", async () => {
  const harness = await openHarness();
  const failing = (given: object) =>
    harness.run(async ({ agents }) => {
      const { main } = agents;
      if (!main) return expect.fail();
      expect(await reward(main, given)).toEqual({ status: 204 });
      return { failed: "it got lost" };
    });
  await expect(failing({ reward: 0.7 })).rejects.toMatchObject({
    ...{ code: "app-failed", retryable: false },
    message: expect.stringContaining("the app gave reward 0.7 and then returned { failed }"),
  });
  for (const given of [{ reward: 0 }, { rewards: { searcher: 0.5 } }])
    expect(await failing(given)).toMatchObject({ conversation: { fault: "it got lost" }, app: given });
});

test("an attempt that was rewarded over HTTP may return an empty answer, as may one whose result has the reward", async () => {
  const harness = await openHarness();
  const conversation = { stop: "answered", answer: "", fault: null };
  const overHttp = await harness.run(async ({ agents }) => {
    const { main } = agents;
    if (!main) return expect.fail();
    expect(await reward(main, { reward: 0.7 })).toEqual({ status: 204 });
    return { answer: "" };
  });
  const inResult = await harness.run(async () => ({ answer: "", reward: 0.7 }));
  for (const outcome of [overHttp, inResult]) expect(outcome).toMatchObject({ conversation, app: { reward: 0.7 } });
});

test("what is undefined in a result is absent, as it would be in JSON", async () => {
  const harness = await openHarness();
  const returning = (result: object) => harness.run(async () => result);
  const { app } = await returning({
    answer: "x",
    reward: undefined,
    rewards: { searcher: undefined },
    failed: undefined,
  });
  expect(app).toEqual({ branches: [], counts: app?.counts });
  expect((await returning({ answer: undefined, failed: "it got lost" })).conversation.fault).toBe("it got lost");
  await expect(returning({ answer: undefined, reward: undefined })).rejects.toMatchObject({ code: "app-failed" });
});
