/** @file What an observer of an app's agent sees: retried requests, calls whose arguments a client rewrites, and how conversations end. */
import { expect, test } from "vitest";
import type { AgentSession, AppMessage, TurnReply, TurnRequest } from "../../../core/contracts/app-chat.ts";
import type { Sessions } from "../../../gpu-workers/gateway/agent-sessions.ts";
import { observedSessions } from "../../../gpu-workers/gateway/observed-sessions.ts";
import type { ConversationProgress } from "../../../gpu-workers/rollouts/converse.ts";
import { planOf, VERSIONS } from "./harness.ts";

const never = new AbortController().signal;
const { address, sampling } = planOf(0);
const session: AgentSession = {
  ...{ id: "a".repeat(22), run: address.run, address, questionId: "q", agent: "searcher" },
  ...{ version: VERSIONS.searcher, sampling },
};
const asking = (...messages: AppMessage[]): TurnRequest => ({
  ...{ messages, tools: [], mayCall: true, stopStrings: [], variant: "" },
});

const replyOf = (text: string, calls: TurnReply["calls"] = []): TurnReply => ({
  ...{ exchange: "1", text, thinking: "", calls, tokens: [], usage: { inputTokens: 1, outputTokens: 1 } },
  stopReason: calls.length > 0 ? "calls" : "stop",
});

/** Sessions that reply as the function says. */
const replying = (reply: () => TurnReply): Sessions => ({
  turn: async () => reply(),
  end: () => ({ branches: [], counts: { branches: 0, rewritten: 0, unparsed: 0, cut: 0 } }),
  discard: () => {},
});

/** Sessions of a sub-agent, and what their observer sees: the conversation's index and what happened in it. */
function observed(reply: () => TurnReply) {
  const seen: string[] = [];
  const onProgress = ({ kind }: { readonly kind: string }, path: readonly number[]) => {
    seen.push(`${path.join()} ${kind}`);
  };
  return { seen, sessions: observedSessions(replying(reply), { onProgress }, false) };
}

test("a retried request is reported once, and so is its reply", async () => {
  let turns = 0;
  const { seen, sessions } = observed(() => {
    turns += 1;
    if (turns === 1) throw new Error("the connection broke");
    return replyOf("here");
  });
  const question: AppMessage = { role: "user", text: "Where?" };
  await expect(sessions.turn(session, asking(question), never)).rejects.toThrow("the connection broke");
  const { text } = await sessions.turn(session, asking(question), never);
  // The reply was lost on its way to the app.
  await sessions.turn(session, asking(question), never);
  expect(seen).toEqual(["0 prompt", "0 turn", "0 end"]);
  const reply: AppMessage = { role: "assistant", text, calls: [] };
  await sessions.turn(session, asking(question, reply, { role: "user", text: "And then?" }), never);
  expect(seen.slice(3)).toEqual(["0 response", "0 turn", "0 end"]);
  await sessions.turn(session, asking({ role: "user", text: "Who?" }), never);
  expect(seen.slice(6)).toEqual(["1 prompt", "1 turn", "1 end"]);
});

test("a client that reformats a call's arguments continues the conversation", async () => {
  const call = { id: "call_1", name: "look", arguments: '{"word":"amber"}' };
  const { seen, sessions } = observed(() => replyOf("", [call]));
  const question: AppMessage = { role: "user", text: "Where?" };
  await sessions.turn(session, asking(question), never);
  const rewritten: AppMessage = { role: "assistant", text: "", calls: [{ ...call, arguments: '{"word": "amber"}' }] };
  await sessions.turn(session, asking(question, rewritten, { role: "tool", call: 0, text: "here" }), never);
  expect(seen).toEqual(["0 prompt", "0 turn", "0 response", "0 turn"]);
});

test.each([
  ["<answer>Paris</answer>", { stop: "answered", answer: "Paris", fault: null }],
  ['<tool_call>{"name": "look"}', { stop: "malformed", answer: null, fault: "<tool_call> without </tool_call>" }],
  ["<answer>a</answer><answer>b</answer>", { stop: "malformed", answer: null, fault: "2 answers" }],
])("a conversation that ends with %s ends for its observer as in the rollout's record", async (text, ending) => {
  const ends: unknown[] = [];
  const onProgress = (progress: ConversationProgress) => {
    if (progress.kind === "end") ends.push(progress.conversation);
  };
  const sessions = observedSessions(
    replying(() => replyOf(text)),
    { onProgress },
    false,
  );
  await sessions.turn(session, asking({ role: "user", text: "Where?" }), never);
  expect(ends).toEqual([{ prompt: "Where?", turns: [], ...ending }]);
});
