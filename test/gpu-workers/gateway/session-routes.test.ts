/** @file The sessions of a sub-agent over HTTP: they take what the gateway takes. */
import { Hono } from "hono";
import { expect, test } from "vitest";
import type { SessionTurn } from "../../../core/contracts/app-chat.ts";
import { AgentSessions } from "../../../gpu-workers/gateway/agent-sessions.ts";
import { addSessionRoutes, type SessionHost } from "../../../gpu-workers/gateway/session-routes.ts";
import { localSubAgent } from "../../../gpu-workers/gateway/sub-agents.ts";
import type { RunContext } from "../../../gpu-workers/run-context.ts";
import { planOf, type RecordedSample, scriptedAgent, VERSIONS } from "./harness.ts";

const id = "a".repeat(22);

/** Calls need no signature here. */
function routes(samples: RecordedSample[]) {
  const sessions = new AgentSessions(scriptedAgent("searcher", samples, { script: () => "read" }), [7], 4);
  const host: SessionHost = {
    agent: "searcher",
    sub: localSubAgent({} as RunContext, sessions),
    admission: { admits: async () => true, whenReady: async () => {}, whenOpen: async () => {} },
    isLoadingOther: () => false,
    onFatal: (error) => expect.unreachable(String(error)),
  };
  const app = new Hono();
  addSessionRoutes(app, "", { verify: async () => undefined, signReport: () => ({}) }, host);
  const post = (turn: SessionTurn) =>
    app.request(`/sessions/${id}/turns`, { method: "POST", body: JSON.stringify(turn) });
  return { post, forget: () => app.request(`/sessions/${id}`, { method: "DELETE" }) };
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
    request: { messages: [{ role: "user", text }], tools: [tool], mayCall: true, stopTexts: [], variant: "" },
  };
}

test("a request as large as the gateway takes reaches a sub-agent in another worker", async () => {
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
