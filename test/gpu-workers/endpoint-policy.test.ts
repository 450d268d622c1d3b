/** @file The policy of an agent behind an API: how many of its requests are in flight, what each costs, and what closing waits for. */
import { expect, onTestFinished, test, vi } from "vitest";
import { openConversationModel } from "../../adapters/llm/converse.ts";
import { AgentConfig } from "../../core/contracts/agent-config.ts";
import { tableKeys } from "../../core/contracts/keys.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { ChatModel } from "../../core/language-model-ports.ts";
import { agentPayments, readApiSpending } from "../../core/training/api-spending.ts";
import { endpointPolicy } from "../../gpu-workers/rollouts/endpoint/policy.ts";
import { playAs } from "../fakes/conversations.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { replyWith, serveOpenAi } from "../fakes/openai-server.ts";

test("at most `engine.slots` requests are in flight, and each turn is billed", async () => {
  let inFlight = 0;
  let peak = 0;
  const config = AgentConfig.parse({
    model: "m",
    engine: { slots: 2 },
    endpoint: { usdPerMillionTokens: { input: 1, output: 3 } },
  });
  const model: ChatModel = {
    async generate() {
      peak = Math.max(peak, ++inFlight);
      await new Promise((resolve) => setTimeout(resolve, 1));
      inFlight -= 1;
      return { thinking: "", text: "Paris", calls: [], stop: "stop", usage: { inputTokens: 1000, outputTokens: 100 } };
    },
  };
  const { table } = memoryStore();
  const policy = endpointPolicy(config, model, agentPayments(table, "r"));
  const { backend } = await policy.acquire(0);
  await Promise.all(Array.from({ length: 6 }, () => playAs(backend)));
  expect(peak).toBe(2);
  // 6 * (1000 * 1 + 100 * 3) millionths.
  expect(await readApiSpending(table, "r")).toEqual({ toolsUsd: 0, judgesUsd: 0, agentsUsd: 0.0078 });
  expect(await table.get(tableKeys.agentSpending("r"))).toMatchObject({ turns: 6 });
});

/** The timeouts of requests, in the order in which the requests start. Each expires when the test aborts it. */
function heldTimeouts(): AbortController[] {
  const held: AbortController[] = [];
  const spy = vi.spyOn(AbortSignal, "timeout").mockImplementation(() => {
    const timeout = new AbortController();
    held.push(timeout);
    return timeout.signal;
  });
  onTestFinished(() => spy.mockRestore());
  return held;
}

test("requests that are cut off, by their timeout or their caller, are billed at their maximum", async () => {
  const timeouts = heldTimeouts();
  const stop = new AbortController();
  // The first is cut off by its timeout, the second is answered, the third is cut off by its caller.
  const server = await serveOpenAi((_, n) => {
    if (n === 0) timeouts[0]?.abort(new DOMException("too late", "TimeoutError"));
    if (n === 2) stop.abort();
    return n === 1 ? replyWith("Paris") : "hang";
  });
  const spec = { provider: "openai", baseUrl: server.url, model: "served", attempts: 2, timeoutSeconds: 1 } as const;
  const model = openConversationModel(spec, { pauseSeconds: 0.001 });
  const config = AgentConfig.parse({ model: "m", endpoint: { usdPerMillionTokens: { input: 0, output: 1 } } });
  const { table } = memoryStore();
  const policy = endpointPolicy(config, model, agentPayments(table, "r"));
  const { backend } = await policy.acquire(0);
  const agentsUsd = async () => (await readApiSpending(table, "r")).agentsUsd;
  await playAs(backend);
  // The first attempt was cut off: billed at the maximum, 500 tokens. The second was answered with 5.
  expect(await agentsUsd()).toBeCloseTo(505e-6, 12);
  await expect(playAs(backend, { signal: stop.signal })).rejects.toMatchObject({ code: "canceled" });
  await expect.poll(agentsUsd, { timeout: 60_000 }).toBeCloseTo(1005e-6, 12);
});

test("when a request and its payment both fail, the error of the request is the cause of the payment's", async () => {
  const config = AgentConfig.parse({ model: "m", endpoint: { usdPerMillionTokens: { input: 1, output: 1 } } });
  const late = new MgrpoError("endpoint-unavailable", "took more than 1 s", { retryable: true });
  const model: ChatModel = {
    async generate({ onUnknownUsage }) {
      onUnknownUsage?.();
      throw late;
    },
  };
  const outage = new MgrpoError("store-unreachable", "no answer from the store", { retryable: true });
  const policy = endpointPolicy(config, model, () => Promise.reject(outage));
  const { backend } = await policy.acquire(0);
  await expect(playAs(backend)).rejects.toMatchObject({ code: "store-unreachable", cause: late });
});

test("closing waits for the payments of requests that were canceled: the process may exit after it", async () => {
  const stop = new AbortController();
  let requests = 0;
  const model: ChatModel = {
    generate: ({ onUnknownUsage }, signal) =>
      new Promise((_, reject) => {
        requests += 1;
        signal.addEventListener("abort", () => {
          onUnknownUsage?.();
          reject(new MgrpoError("canceled", "the request was canceled"));
        });
      }),
  };
  const config = AgentConfig.parse({ model: "m", endpoint: { usdPerMillionTokens: { input: 0, output: 1 } } });
  let arrive = () => {};
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  const paid: number[] = [];
  const pay = async (usd: number) => {
    await arrived;
    paid.push(usd);
  };
  const policy = endpointPolicy(config, model, pay);
  const { backend } = await policy.acquire(0);
  const played = Promise.allSettled([1, 2].map(() => playAs(backend, { signal: stop.signal })));
  await vi.waitFor(() => expect(requests).toBe(2), 60_000);
  stop.abort();
  await played;
  const closing = policy.close().then(() => [...paid]);
  arrive();
  expect(await closing).toEqual([500e-6, 500e-6]);
});
