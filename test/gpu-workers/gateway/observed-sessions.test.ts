/** @file What an observer of an app's agent sees when requests are retried. */
import { expect, test } from "vitest";
import type { AgentSession, AppMessage, TurnReply, TurnRequest } from "../../../core/contracts/app-chat.ts";
import type { Sessions } from "../../../gpu-workers/gateway/agent-sessions.ts";
import { observedSessions } from "../../../gpu-workers/gateway/observed-sessions.ts";
import { planOf, VERSIONS } from "./harness.ts";

const never = new AbortController().signal;
const { address, sampling } = planOf(0);
const session: AgentSession = {
  ...{ id: "a".repeat(22), run: address.run, address, questionId: "q", agent: "searcher" },
  ...{ version: VERSIONS.searcher, sampling },
};
const asking = (...messages: AppMessage[]): TurnRequest => ({
  ...{ messages, tools: [], mayCall: true, stopTexts: [], variant: "" },
});

/** Sessions whose first turn fails. */
function failingOnce(): Sessions {
  let turns = 0;
  return {
    async turn(): Promise<TurnReply> {
      turns += 1;
      if (turns === 1) throw new Error("the connection broke");
      const usage = { inputTokens: 1, outputTokens: 1 };
      return { exchange: "1", text: "here", thinking: "", calls: [], stopReason: "stop", usage, tokens: [] };
    },
    end: () => ({ branches: [], counts: { branches: 0, rewritten: 0, unparsed: 0, cut: 0 } }),
    discard: () => {},
  };
}

test("a retried request is one request of one conversation, and its reply is reported once", async () => {
  const seen: string[] = [];
  const onProgress = ({ kind }: { readonly kind: string }, path: readonly number[]) => {
    seen.push(`${path.join()} ${kind}`);
  };
  const sessions = observedSessions(failingOnce(), { onProgress }, false);
  const question: AppMessage = { role: "user", text: "Where?" };
  await expect(sessions.turn(session, asking(question), never)).rejects.toThrow("the connection broke");
  const { text } = await sessions.turn(session, asking(question), never);
  // The reply was lost on its way to the app.
  await sessions.turn(session, asking(question), never);
  expect(seen).toEqual(["0 asked", "0 said", "0 ended"]);
  const reply: AppMessage = { role: "assistant", text, calls: [] };
  await sessions.turn(session, asking(question, reply, { role: "user", text: "And then?" }), never);
  expect(seen.slice(3)).toEqual(["0 answered", "0 said", "0 ended"]);
  await sessions.turn(session, asking({ role: "user", text: "Who?" }), never);
  expect(seen.slice(6)).toEqual(["1 asked", "1 said", "1 ended"]);
});
