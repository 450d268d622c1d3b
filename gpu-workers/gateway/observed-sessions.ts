/**
 * @file Reports the conversations of an app's agent to the same observer as those of native rollouts. A main agent's
 * conversation ends when its app returns, which is not seen here; a sub-agent's ends with a reply without calls.
 */
import type { AppMessage, TurnReply, TurnRequest } from "../../core/contracts/app-chat.ts";
import { type Conversation, ToolCall, type Turn } from "../../core/contracts/conversation.ts";
import { canonicalJson, jsonOrUndefined } from "../../core/contracts/parse.ts";
import { endingOf } from "../../core/gateway/branch.ts";
import { messageIdentity } from "../../core/gateway/message-tree.ts";
import type { HostedAgent } from "../rollouts/agent.ts";
import type { Sessions } from "./agent-sessions.ts";

export function observedSessions(
  sessions: Sessions,
  { onProgress }: Pick<HostedAgent, "onProgress">,
  isMain: boolean,
): Sessions {
  if (!onProgress) return sessions;
  const observed = new Map<string, ObservedSession>();
  return {
    async turn(session, request, signal) {
      const open = observed.get(session.id) ?? newObservedSession();
      observed.set(session.id, open);
      const key = canonicalJson(request);
      const known = open.requests.get(key);
      const { call, isNew } =
        known === undefined ? conversationOf(open, request.messages) : { call: known, isNew: false };
      const report: Report = (progress) => onProgress(progress, isMain ? [] : [call]);
      open.requests.set(key, call);
      if (known === undefined) reportRequest(request, isNew, report);
      const reply = await sessions.turn(session, request, signal);
      // A repeated request gets the same reply, which is reported once.
      if (open.replied.has(key)) return reply;
      open.replied.add(key);
      open.conversations.set(historyOf([...request.messages, assistant(reply)]), call);
      report({ kind: "turn", turn: turnOf(reply) });
      if (!isMain && reply.calls.length === 0) report({ kind: "end", conversation: endOf(request, reply) });
      return reply;
    },
    end(id, delivered) {
      observed.delete(id);
      return sessions.end(id, delivered);
    },
    discard(id) {
      observed.delete(id);
      sessions.discard(id);
    },
  };
}

interface ObservedSession {
  /** The history up to a reply -> the index of its conversation. */
  readonly conversations: Map<string, number>;
  /** Each request, by content -> the index of its conversation. */
  readonly requests: Map<string, number>;
  /** The requests whose reply was reported. */
  readonly replied: Set<string>;
  count: number;
}

const newObservedSession = (): ObservedSession => ({
  conversations: new Map(),
  requests: new Map(),
  replied: new Set(),
  count: 0,
});

/** A request continues the conversation that has the same messages up to the request's last reply. */
function conversationOf(open: ObservedSession, messages: readonly AppMessage[]): { call: number; isNew: boolean } {
  const last = lastReply(messages);
  const known = last < 0 ? undefined : open.conversations.get(historyOf(messages.slice(0, last + 1)));
  if (known !== undefined) return { call: known, isNew: false };
  open.count += 1;
  return { call: open.count - 1, isNew: true };
}

const lastReply = (messages: readonly AppMessage[]) => messages.findLastIndex(({ role }) => role === "assistant");

/** Equal for histories that a session treats as equal (message-tree.ts). */
const historyOf = (messages: readonly AppMessage[]) => canonicalJson(messages.map(messageIdentity));

const assistant = ({ text, calls }: TurnReply): AppMessage => ({ role: "assistant", text, calls });

const taskOf = (messages: readonly AppMessage[]) => messages.find(({ role }) => role === "user")?.text ?? "";

type Report = (progress: Parameters<NonNullable<HostedAgent["onProgress"]>>[0]) => void;

/** The task of a new conversation, or what came after the last reply. */
function reportRequest({ messages, tools }: TurnRequest, isNew: boolean, report: Report): void {
  if (isNew) {
    const offered = tools.map((tool) => tool.function.name);
    report({ kind: "prompt", prompt: taskOf(messages), ...(offered.length > 0 && { tools: offered }) });
    return;
  }
  const at = lastReply(messages);
  const reply = messages[at];
  const calls = reply?.role === "assistant" ? reply.calls : [];
  for (const message of messages.slice(at + 1)) {
    const call = message.role === "tool" ? calls[message.call] : undefined;
    const name = call?.name ?? message.role;
    report({
      kind: "response",
      call: { name, arguments: call ? argumentsOf(call.arguments) : {} },
      response: { name, text: message.text },
    });
  }
}

/** The turn in the format that models write. */
function turnOf({ thinking, text, calls }: TurnReply): Turn {
  const read = calls.map((call) => ({ name: call.name, arguments: argumentsOf(call.arguments) }));
  const written = read.map((call) => `<tool_call>${JSON.stringify(call)}</tool_call>`);
  const thought = thinking === "" ? [] : [`<think>${thinking}</think>`];
  return { text: [...thought, text, ...written].filter(Boolean).join("\n"), calls: read, responses: [] };
}

/** Arguments that the gateway sent are an object; those that an app wrote into its history may be any text. */
const argumentsOf = (text: string): ToolCall["arguments"] =>
  ToolCall.shape.arguments.safeParse(jsonOrUndefined(text)).data ?? { text };

/** If the turn had calls that could not be read, its text has their tags, which `endingOf` finds. */
function endOf({ messages }: TurnRequest, { text, stopReason }: TurnReply): Conversation {
  const ending = endingOf({ text, calls: [], unparsed: 0, isCut: stopReason === "length" });
  return { prompt: taskOf(messages), turns: [], ...ending };
}
