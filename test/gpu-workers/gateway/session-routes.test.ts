/** @file The sessions of a sub-agent over HTTP: what they accept, what they refuse, and which answers are signed. */
import { Hono } from "hono";
import { expect, onTestFinished, test, vi } from "vitest";
import { type SessionEnd, type SessionTurn, TurnReply } from "../../../core/contracts/app-chat.ts";
import type { WorkerRecord } from "../../../core/contracts/records.ts";
import { MgrpoError } from "../../../core/errors.ts";
import { AgentSessions } from "../../../gpu-workers/gateway/agent-sessions.ts";
import { addSessionRoutes, type SessionHost } from "../../../gpu-workers/gateway/session-routes.ts";
import { localSubAgent } from "../../../gpu-workers/gateway/sub-agents.ts";
import { LONGEST_POLL_SECONDS } from "../../../gpu-workers/invocations/server.ts";
import { responseFailure } from "../../../gpu-workers/invocations/worker-client.ts";
import type { RunContext } from "../../../gpu-workers/run-context.ts";
import { memoryStore } from "../../fakes/memory-store.ts";
import {
  type HarnessOptions,
  pausedSampling,
  planOf,
  type RecordedSample,
  scriptedAgent,
  tokenizer,
  VERSIONS,
} from "./harness.ts";

const id = "a".repeat(22);

const log = vi.fn();

/** Calls need no signature here. */
function routes(samples: RecordedSample[], run = {} as RunContext, options: HarnessOptions = {}) {
  const agent = scriptedAgent("searcher", samples, { script: () => "read", ...options });
  const sessions = new AgentSessions(agent, [7], 4, 0);
  const host: SessionHost = {
    agent: "searcher",
    sub: localSubAgent(run, sessions),
    admission: { admits: async () => true, whenReady: async () => {}, whenOpen: async () => {} },
    staleness: 0,
    isLoadingOther: () => false,
    log: { error: log },
  };
  const app = new Hono();
  const { close } = addSessionRoutes(
    app,
    "",
    { verify: async () => undefined, signReport: () => ({ "x-signed": "yes" }) },
    host,
  );
  const send = (path: string, body: object) =>
    app.request(`/sessions/${id}/${path}`, { method: "POST", body: JSON.stringify(body) });
  return {
    post: (turn: SessionTurn) => send("turns", turn),
    end: (end: SessionEnd) => send("end", end),
    forget: () => app.request(`/sessions/${id}`, { method: "DELETE" }),
    close,
  };
}

function turnOf(text: string, description = ""): SessionTurn {
  const { address, sampling } = planOf(0);
  const tool = { type: "function" as const, function: { name: "lookup", description, parameters: {} } };
  return {
    session: {
      id,
      run: address.run,
      address,
      questionId: "q",
      agent: "searcher",
      version: VERSIONS.searcher,
      sampling,
    },
    request: { messages: [{ role: "user", text }], tools: [tool], mayCall: true, stopStrings: [], variant: "" },
  };
}

test("a sub-agent in another worker accepts a request of 2 MiB, as the gateway does", async () => {
  const samples: RecordedSample[] = [];
  const response = await routes(samples).post(turnOf("read", "x".repeat(2 << 20)));
  expect(response.status).toBe(200);
  expect(await response.json()).toMatchObject({ text: "read" });
});

test("a turn that arrives after its session was forgotten samples nothing", async () => {
  const samples: RecordedSample[] = [];
  const { post, forget } = routes(samples);
  expect((await post(turnOf("one"))).status).toBe(200);
  await forget();
  expect((await post(turnOf("two"))).status).toBe(503);
  expect(samples).toHaveLength(1);
});

test("a turn that takes longer than a poll gets 202, and the same request then gets the reply of its one sample", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const { resume, beforeSample, begun } = pausedSampling();
  const samples: RecordedSample[] = [];
  const { post } = routes(samples, {} as RunContext, { beforeSample });
  const first = post(turnOf("one"));
  await vi.waitFor(() => expect(begun()).toBe(1), 60_000);
  await vi.advanceTimersByTimeAsync(LONGEST_POLL_SECONDS * 1000);
  expect((await first).status).toBe(202);
  const second = post(turnOf("one"));
  resume();
  await vi.waitFor(() => expect(samples).toHaveLength(1), 60_000);
  const reply = await second;
  expect([reply.status, TurnReply.parse(await reply.json()).text]).toEqual([200, "read"]);
  expect(samples).toHaveLength(1);
});

test("a turn or an end request for another session or another agent gets 400, and commits nothing", async () => {
  const store = memoryStore();
  const { post, end } = routes([], { name: "relay", store } as unknown as RunContext);
  const { session, ...turn } = turnOf("one");
  const { exchange } = TurnReply.parse(await (await post({ session, ...turn })).json());
  for (const other of [{ agent: "main" }, { id: "b".repeat(22) }]) {
    const misdirected = { ...session, ...other };
    expect((await post({ session: misdirected, ...turn })).status).toBe(400);
    expect((await end({ session: misdirected, delivered: [exchange], callTexts: [] })).status).toBe(400);
  }
  expect(store.objects.keys()).toEqual([]);
});

test("an end request whose commit failed can be repeated, and then commits the conversations", async () => {
  const store = memoryStore();
  let failures = 1;
  const objects = {
    ...store.objects,
    commit: async (...args: Parameters<typeof store.objects.commit>) => {
      if (failures-- > 0) throw new MgrpoError("store-unreachable", "the store is away", { retryable: true });
      return store.objects.commit(...args);
    },
  };
  const { post, end } = routes([], { name: "relay", store: { ...store, objects } } as unknown as RunContext);
  const { session, ...turn } = turnOf("one");
  const { exchange } = TurnReply.parse(await (await post({ session, ...turn })).json());
  const summary = { session, delivered: [exchange], callTexts: [] };
  expect((await end(summary)).status).toBe(502);
  expect(store.objects.keys()).toEqual([]);
  const repeated = await end(summary);
  expect(repeated.status).toBe(200);
  expect(await repeated.json()).toMatchObject({ invocations: [{ agent: "searcher" }], counts: { branches: 1 } });
  expect(store.objects.keys()).toHaveLength(1);
});

test("a worker that drains waits until a session that is ending is committed", async () => {
  const store = memoryStore();
  const commit = vi.fn(async (...args: Parameters<typeof store.objects.commit>) => {
    await new Promise((resolve) => setTimeout(resolve, 100));
    return store.objects.commit(...args);
  });
  const run = { name: "relay", store: { ...store, objects: { ...store.objects, commit } } } as unknown as RunContext;
  const { post, end, close } = routes([], run);
  const { session, ...turn } = turnOf("one");
  const { exchange } = TurnReply.parse(await (await post({ session, ...turn })).json());
  const ending = end({ session, delivered: [exchange], callTexts: [] });
  await vi.waitFor(() => expect(commit).toHaveBeenCalled(), { timeout: 60_000, interval: 5 });
  await close();
  expect(store.objects.keys()).toHaveLength(1);
  expect((await ending).status).toBe(200);
});

/** What the caller of a turn makes of the response if the conversation cannot be rendered. */
async function failureIf(error: Error): Promise<Error> {
  const render = () => {
    throw error;
  };
  const { post } = routes([], {} as RunContext, { tokenizer: { ...tokenizer, render } });
  const response = await post(turnOf("one"));
  return responseFailure({ worker: "w1" } as WorkerRecord, { status: response.status, text: await response.text() });
}

test("a refused request is the app's fault on the caller's side too, not an outage of the worker", async () => {
  const failure = await failureIf(new MgrpoError("tokenizer-damaged", "chat_template failed on user, user"));
  expect(failure).toMatchObject({
    ...{ code: "request-refused", retryable: false },
    message: expect.stringContaining("chat_template failed on user, user"),
  });
});

test("a turn with an unexpected error costs the attempt, as one of the main agent does, and not the sub-agent's worker", async () => {
  const failure = await failureIf(new TypeError("a message without a text"));
  expect(failure).toMatchObject({
    ...{ code: "session-lost", retryable: true },
    message: expect.stringContaining("a turn of agent 'searcher' failed: a message without a text"),
  });
  expect(log).toHaveBeenCalledWith("session request failed", { error: expect.stringContaining("TypeError") });
});

test("the answer to a turn that reaches a limit is signed, as a reply is: it may decide a reward", async () => {
  const { post } = routes([], {} as RunContext, {
    config: { limits: { turns: 1, turnTokens: 20, contextTokens: 60 } },
  });
  const reply = await post(turnOf("one"));
  const limit = await post(turnOf("one ".repeat(100)));
  expect([reply.status, limit.status]).toEqual([200, 422]);
  expect(await limit.json()).toEqual({ limit: "token-limit", message: expect.stringContaining("contextTokens") });
  for (const { headers } of [reply, limit]) expect(headers.get("x-signed")).toBe("yes");
});
