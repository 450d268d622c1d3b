/** @file A conversation that cannot fit an agent's context is refused before most of its text is rendered or tokenized; one that fits is not. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { AgentSession, AppMessage, TurnRequest } from "../../../core/contracts/app-chat.ts";
import type { Tokenizer } from "../../../core/ports.ts";
import { AgentSessions } from "../../../gpu-workers/gateway/agent-sessions.ts";
import { ApiError } from "../../../gpu-workers/gateway/api/errors.ts";
import { tooMuchTextFault } from "../../../gpu-workers/gateway/context-room.ts";
import { LimitReached } from "../../../gpu-workers/gateway/limit-reached.ts";
import { servedTeam } from "../../../gpu-workers/gateway/served-team.ts";
import type { PolicyVersions } from "../../../gpu-workers/rollouts/policy-versions.ts";
import { planOf, scriptedAgent, tokenizer, VERSIONS } from "./harness.ts";

const CONTEXT_TOKENS = 4000;
const never = new AbortController().signal;
const { address, sampling } = planOf(0);
const session: AgentSession = {
  ...{ id: "a".repeat(22), run: address.run, address, questionId: "q", agent: "searcher" },
  ...{ version: VERSIONS.searcher, sampling },
};
const asking = (messages: readonly AppMessage[], tools: TurnRequest["tools"] = []): TurnRequest => ({
  ...{ messages: [...messages], tools, mayCall: true, stopStrings: [], variant: "" },
});
const user = (text: string): AppMessage => ({ role: "user", text });
const calling = (...names: string[]): AppMessage => ({
  ...{ role: "assistant", text: "" },
  calls: names.map((name, i) => ({ id: `c${i}`, name, arguments: "{}" })),
});

/** Ways to request a turn of one agent: in a rollout, and where the team is served. `work`: what its tokenizer has processed. */
async function openAgent(limits: object = {}) {
  const work = { characters: 0, messages: 0 };
  const counting: Tokenizer = {
    ...tokenizer,
    encodeText(text) {
      work.characters += text.length;
      return tokenizer.encodeText(text);
    },
    render(messages, ...rest) {
      work.messages += messages.length;
      return tokenizer.render(messages, ...rest);
    },
  };
  const config = { limits: { turns: 8, turnTokens: 400, contextTokens: CONTEXT_TOKENS, ...limits } };
  const agent = scriptedAgent("searcher", [], { config });
  const { inference, ...lease } = await agent.policy.acquire(VERSIONS.searcher);
  const policy = { acquire: async () => ({ ...lease, inference: { ...inference, tokenizer: counting } }) };
  const counted = { ...agent, policy: policy as unknown as PolicyVersions };
  const team = servedTeam(new Map([["searcher", counted]]), 1);
  const unset = { temperature: undefined, topP: undefined, seed: undefined };
  const sessions = new AgentSessions(counted, [7], 4, 0);
  return {
    work,
    inRollout: (request: TurnRequest) => sessions.turn(session, request, never),
    served: (request: TurnRequest) => team.turn("searcher", request, never, unset),
  };
}

test.each([
  ["one message of 3 MB is", [user("word ".repeat(600_000))]],
  ["300 messages of 10 kB are", Array.from({ length: 300 }, (_, i) => user(`${i} ${"word ".repeat(2000)}`))],
  ["30 calls with names of 100 kB are", [user("?"), calling(...Array(30).fill("word ".repeat(20_000)))]],
])("%s refused at once, in a rollout and where the team is served", async (_what, messages) => {
  const { work, inRollout, served } = await openAgent();
  const request = asking(messages);
  await expect(inRollout(request)).rejects.toBeInstanceOf(LimitReached);
  await expect(inRollout(request)).rejects.toMatchObject({
    ...{ limit: "token-limit", message: expect.stringContaining("agents.searcher.limits.contextTokens is 4000") },
  });
  await expect(served(request)).rejects.toBeInstanceOf(ApiError);
  await expect(served(request)).rejects.toMatchObject({ status: 400, code: "context_length_exceeded" });
  // Four requests. Each tokenizes less than twice the context at 8 characters per token.
  expect(work.characters).toBeLessThan(4 * 2 * 8 * CONTEXT_TOKENS);
});

test("more messages than the context has tokens are refused before they are rendered", async () => {
  const { work, inRollout, served } = await openAgent();
  const request = asking(Array.from({ length: 40_000 }, () => user("b")));
  const fault = { message: "the conversation has 40000 messages, and agents.searcher.limits.contextTokens is 4000" };
  await expect(inRollout(request)).rejects.toMatchObject({ limit: "token-limit", ...fault });
  await expect(served(request)).rejects.toMatchObject({ code: "context_length_exceeded", ...fault });
  expect(work).toEqual({ characters: 0, messages: 0 });
});

test("with responseTokens, no more tool responses are cut once those before them take twice the context", async () => {
  const { work, inRollout } = await openAgent({ responseTokens: 100 });
  const respond = (i: number): AppMessage => ({ role: "tool", call: i, text: `${i} ${"word ".repeat(400)}` });
  const calls = Array.from({ length: 1000 }, (_, i) => ({ id: `c${i}`, name: "read", arguments: "{}" }));
  const messages: AppMessage[] = [
    user("read"),
    { role: "assistant", text: "", calls },
    ...calls.map((_, i) => respond(i)),
  ];
  await expect(inRollout(asking(messages))).rejects.toMatchObject({ limit: "token-limit" });
  // About 80 of the 1000 responses are cut. A cut takes a dozen counts of at most 800 characters.
  expect(work.characters).toBeLessThan(120 * 12 * 800);
});

test("a continuation has the room that the conversation before it leaves", async () => {
  const { inRollout } = await openAgent({ contextTokens: 100 });
  const first = asking([user("say one")]);
  await inRollout(first);
  const next = (text: string) => asking([...first.messages, { role: "assistant", text: "one", calls: [] }, user(text)]);
  await expect(inRollout(next("word ".repeat(200)))).rejects.toMatchObject({
    ...{
      limit: "token-limit",
      message: "the conversation takes more tokens than fit: agents.searcher.limits.contextTokens is 100",
    },
  });
  await expect(inRollout(next("say two"))).resolves.toMatchObject({ text: "two" });
});

test("a conversation that has had its last turn is refused for that, however little room is left", async () => {
  const { inRollout } = await openAgent({ contextTokens: 100, turns: 1 });
  const first = asking([user("say one")]);
  await inRollout(first);
  const next = asking([...first.messages, { role: "assistant", text: "one", calls: [] }, user("word ".repeat(200))]);
  await expect(inRollout(next)).rejects.toMatchObject({ limit: "turn-limit" });
});

test("texts that fit are never refused; texts that do not fit always are, if they are long for the context", () => {
  const text = fc.integer({ min: 0, max: 5000 }).map((length) => "x".repeat(length));
  const limit = { agent: "a", contextTokens: 100 };
  fc.assert(
    fc.property(
      fc.array(text, { maxLength: 10 }),
      fc.integer({ min: 1, max: 100 }),
      fc.boolean(),
      (texts, per, asTool) => {
        const message = (one: string): AppMessage => (asTool ? { role: "tool", call: 0, text: one } : user(one));
        const count = (one: string) => Math.ceil(one.length / per);
        const total = texts.reduce((sum, one) => sum + count(one), 0);
        const fault = tooMuchTextFault(texts.map(message), [], { tokens: limit.contextTokens, count }, limit);
        if (total <= limit.contextTokens) expect(fault).toBeUndefined();
        else if (texts.join("").length > 8 * limit.contextTokens) expect(fault).toBeDefined();
      },
    ),
  );
});
