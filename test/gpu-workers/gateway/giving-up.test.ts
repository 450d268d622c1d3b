/** @file Whether an app that throws has given up because of a limit, which is the team's failure, or has failed by itself. */
import { expect, test, vi } from "vitest";
import type { AgentAccess, AppCall } from "../../../core/contracts/app-rollout.ts";
import { type HarnessOptions, openHarness, pausedSampling } from "./harness.ts";

const limits = { turns: 8, turnTokens: 100, contextTokens: 120 };
const start = (options: HarnessOptions = {}) => openHarness({ config: { limits }, ...options });

/** Throws as SDKs do if the request is refused. */
async function ask({ baseURL, apiKey, model }: AgentAccess, content: string): Promise<void> {
  const body = JSON.stringify({ model, messages: [{ role: "user", content }] });
  const headers = { authorization: `Bearer ${apiKey}`, "content-type": "application/json" };
  const response = await fetch(`${baseURL}/chat/completions`, { method: "POST", headers, body });
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
}

const long = "x".repeat(500);
const agentOf = ({ agents }: AppCall, name: string) => agents[name] ?? expect.fail(`no agent ${name}`);

/** The searcher reaches its limit. The app tells the main agent so, and continues. Returns the searcher's error. */
async function continueAfterLimit(call: AppCall): Promise<unknown> {
  const refused: unknown = await ask(agentOf(call, "searcher"), long).catch((error: unknown) => error);
  expect(String(refused)).toContain("context_length_exceeded");
  await ask(agentOf(call, "main"), "say there is no report");
  return refused;
}

test("an app that continues after a limit and then throws another error has failed by itself", async () => {
  const harness = await start();
  const run = harness.run(async (call) => {
    await continueAfterLimit(call);
    throw new Error("no database");
  });
  await expect(run).rejects.toMatchObject({ code: "app-failed", message: expect.stringContaining("no database") });
});

test.each([
  ["the limit's error", (refused: unknown) => refused],
  ["an error that the limit's error caused", (cause: unknown) => new Error("no result", { cause })],
])("an app that continues after a limit and then throws %s has given up", async (_what, thrown) => {
  const harness = await start();
  const outcome = await harness.run(async (call) => {
    throw thrown(await continueAfterLimit(call));
  });
  expect(outcome.conversation).toMatchObject({ stop: "token-limit", answer: null });
});

test("an app that throws the error of an earlier limit has given up, even if another was reached since", async () => {
  const harness = await start();
  const outcome = await harness.run(async (call) => {
    const refused = await continueAfterLimit(call);
    await expect(ask(agentOf(call, "searcher"), long.repeat(2))).rejects.not.toThrow((refused as Error).message);
    await ask(agentOf(call, "main"), "go on without it");
    throw refused;
  });
  expect(outcome.conversation).toMatchObject({ stop: "token-limit", answer: null });
});

test("a reply of the main agent to a request from before the limit does not mean that the app has continued", async () => {
  const { resume, beforeSample, begun } = pausedSampling();
  const harness = await start({ beforeSample });
  const outcome = await harness.run(async (call) => {
    const earlier = ask(agentOf(call, "main"), "say one moment");
    await vi.waitFor(() => expect(begun()).toBe(1), 60_000);
    await expect(ask(agentOf(call, "searcher"), long)).rejects.toThrow("context_length_exceeded");
    resume();
    await earlier;
    throw new Error("no result");
  });
  expect(outcome.conversation).toMatchObject({ stop: "token-limit", answer: null });
});

test("after a second limit, an app that throws has given up, whatever the error says", async () => {
  const harness = await start();
  const outcome = await harness.run(async (call) => {
    await continueAfterLimit(call);
    await ask(agentOf(call, "main"), long).catch(() => {});
    throw new Error("no result");
  });
  expect(outcome.conversation).toMatchObject({ stop: "token-limit", answer: null });
});
