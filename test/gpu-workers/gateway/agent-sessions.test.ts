/** @file How long an agent's sessions live, what their end returns, which tokens precede a turn, how long it may be, and how often the chat template is rendered. */
import { expect, test } from "vitest";
import type { AgentSession, TurnRequest } from "../../../core/contracts/app-chat.ts";
import type { Tokenizer } from "../../../core/ports.ts";
import { AgentSessions } from "../../../gpu-workers/gateway/agent-sessions.ts";
import type { PolicyVersions } from "../../../gpu-workers/rollouts/policy-versions.ts";
import { planOf, type RecordedSample, scriptedAgent, tokenizer, VERSIONS } from "./harness.ts";

const never = new AbortController().signal;

function sessionOf(step: number): AgentSession {
  const { address, sampling } = planOf(0);
  const id = String(step).padStart(22, "0");
  const about = { questionId: "q", agent: "searcher", version: VERSIONS.searcher };
  return { id, run: address.run, address: { ...address, step }, ...about, sampling };
}

const asking = (text: string, tools: TurnRequest["tools"] = []): TurnRequest => ({
  ...{ messages: [{ role: "user", text }], tools, mayCall: true, stopStrings: [], variant: "" },
});

const openSessions = (staleness: number) => new AgentSessions(scriptedAgent("searcher", []), [7], 4, staleness);

test("with staleness 2, a session stays open while sessions of the next three steps are opened", async () => {
  const sessions = openSessions(2);
  const { exchange: first } = await sessions.turn(sessionOf(0), asking("say one"), never);
  for (const step of [1, 2, 3]) await sessions.turn(sessionOf(step), asking("say other"), never);
  const { exchange: second } = await sessions.turn(sessionOf(0), asking("say two"), never);
  expect(sessions.end(sessionOf(0).id, [first, second]).branches).toHaveLength(2);
});

test("with staleness 2, a session is forgotten once a session of the fourth step after its own is opened", async () => {
  const sessions = openSessions(2);
  const { exchange } = await sessions.turn(sessionOf(0), asking("say one"), never);
  await sessions.turn(sessionOf(4), asking("say other"), never);
  expect(() => sessions.end(sessionOf(0).id, [exchange])).toThrow(/lost session/);
});

test("ending a session fails as retryable, instead of returning nothing, if this worker lacks a delivered reply", async () => {
  const sessions = openSessions(0);
  expect(() => sessions.end("unknown", ["an exchange"])).toThrow(
    expect.objectContaining({ code: "session-lost", retryable: true }),
  );
  expect(sessions.end("unknown", []).branches).toEqual([]);
  await sessions.turn(sessionOf(0), asking("say one"), never);
  expect(() => sessions.end(sessionOf(0).id, ["of another worker"])).toThrow(/lost session/);
});

test("ending a session twice returns the same result, and a turn after the end is refused", async () => {
  const sessions = openSessions(0);
  const session = sessionOf(0);
  const { exchange } = await sessions.turn(session, asking("say one"), never);
  expect(sessions.end(session.id, [exchange])).toEqual(sessions.end(session.id, [exchange]));
  await expect(sessions.turn(session, asking("say two"), never)).rejects.toMatchObject({ code: "canceled" });
});

test("a turn has at most the agent's turnTokens, the request's limit and the room that the context leaves", async () => {
  const samples: RecordedSample[] = [];
  const config = { limits: { turns: 8, turnTokens: 30, contextTokens: 100 } };
  const sessions = new AgentSessions(scriptedAgent("searcher", samples, { config }), [7], 4, 0);
  const limitFor = async (text: string, maxTokens?: number) => {
    await sessions.turn(sessionOf(0), { ...asking(text), ...(maxTokens && { maxTokens }) }, never);
    const { tokens, maxTokens: limit } = samples.at(-1)?.request ?? expect.fail();
    return { limit, room: 100 - tokens.length };
  };
  expect(await limitFor("say a")).toMatchObject({ limit: 30 });
  expect(await limitFor("say b", 5)).toMatchObject({ limit: 5 });
  expect(await limitFor("say c", 1000)).toMatchObject({ limit: 30 });
  const { limit, room } = await limitFor(`say ${"d".repeat(60)}`, 1000);
  expect(room).toBeLessThan(30);
  expect(limit).toBe(room);
});

test("a turn continues the reply's sampled tokens; a reply without an end-of-turn token, because it was cut or stopped, gets one first", async () => {
  const samples: RecordedSample[] = [];
  const sessions = new AgentSessions(scriptedAgent("searcher", samples), [7], 8, 0);
  const { endOfTurn } = tokenizer;
  const continued = async (text: string, more: Partial<TurnRequest>) => {
    const request = { ...asking(text), ...more };
    const reply = await sessions.turn(sessionOf(0), request, never);
    const messages = [...request.messages, { role: "assistant" as const, text: reply.text, calls: [] }];
    await sessions.turn(sessionOf(0), { ...asking(""), messages: [...messages, { role: "user", text: "on" }] }, never);
    const [first = expect.fail(), second = expect.fail()] = samples.splice(0);
    const known = [...first.request.tokens, ...first.sample.tokens.slice(0, reply.usage.outputTokens)];
    expect(second.request.tokens.slice(0, known.length)).toEqual(known);
    return { said: reply.text, last: known.at(-1), next: second.request.tokens[known.length] };
  };
  const ended = await continued("say hello", {});
  expect(ended).toMatchObject({ said: "hello", last: endOfTurn });
  expect(ended.next).not.toBe(endOfTurn);
  const cut = await continued("say again", { maxTokens: 2 });
  expect(cut).toMatchObject({ said: "ag", next: endOfTurn });
  expect(cut.last).not.toBe(endOfTurn);
  expect(await continued("say one two", { stopStrings: [" t"] })).toMatchObject({ said: "one", next: endOfTurn });
});

test("the first request that continues a reply continues its sequence, the next branches off; the end of the session releases both", async () => {
  const samples: RecordedSample[] = [];
  const released: string[] = [];
  const agent = scriptedAgent("searcher", samples);
  const { inference = expect.fail(), ...lease } = await agent.policy.acquire(VERSIONS.searcher);
  const sampler = { ...inference.sampler, release: (sequence: string) => void released.push(sequence) };
  const policy = { acquire: async () => ({ ...lease, inference: { ...inference, sampler } }) };
  const sessions = new AgentSessions({ ...agent, policy: policy as unknown as PolicyVersions }, [7], 8, 0);
  const first = asking("say one");
  await sessions.turn(sessionOf(0), first, never);
  for (const text of ["say two", "say three"]) {
    const next = [
      { role: "assistant" as const, text: "one", calls: [] },
      { role: "user" as const, text },
    ];
    await sessions.turn(sessionOf(0), { ...first, messages: [...first.messages, ...next] }, never);
  }
  const [one = expect.fail(), two, three] = samples;
  // The last token of a reply enters the cache with the next turn.
  const sharedTokens = one.request.tokens.length + one.sample.tokens.length - 1;
  expect(two?.request).toMatchObject({ sequence: one.request.sequence });
  expect(two?.request).not.toHaveProperty("branchOf");
  expect(three?.request.branchOf).toEqual({ sequence: one.request.sequence, sharedTokens });
  expect(released).toEqual([]);
  sessions.end(sessionOf(0).id, []);
  expect(released).toEqual([one.request.sequence, three?.request.sequence]);
});

test("the layout of a list of tools is rendered once, and the number of cached layouts is limited", async () => {
  let rendered = 0;
  const counting: Tokenizer = {
    ...tokenizer,
    render(...request) {
      rendered += 1;
      return tokenizer.render(...request);
    },
  };
  const agent = scriptedAgent("searcher", []);
  const { inference, ...lease } = await agent.policy.acquire(VERSIONS.searcher);
  const policy = { acquire: async () => ({ ...lease, inference: { ...inference, tokenizer: counting } }) };
  const sessions = new AgentSessions({ ...agent, policy: policy as unknown as PolicyVersions }, [7], 1000, 0);
  const renderedFor = async (description: string) => {
    const before = rendered;
    const tool = { type: "function" as const, function: { name: "lookup", description, parameters: {} } };
    await sessions.turn(sessionOf(0), asking(`say ${rendered}`, [tool]), never);
    return rendered - before;
  };
  const first = await renderedFor("today");
  expect(first).toBeGreaterThan(0);
  expect(await renderedFor("today")).toBeLessThan(first);
  for (let day = 0; day < 64; day++) await renderedFor(`in ${day} days`);
  expect(await renderedFor("today")).toBe(first);
});
