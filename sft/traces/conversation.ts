/** @file A conversation as `mgrpo sft` takes it: one prompt, turns with calls and their responses, an answer. */
import { jsonIn, UnusableTraceError } from "./json.ts";
import type { Call, Message } from "./message.ts";
import type { FunctionTool } from "./tools.ts";

type Assistant = Extract<Message, { role: "assistant" }>;
type Response = Extract<Message, { role: "tool" }>;

export interface TracedConversation {
  readonly messages: readonly Message[];
  /** Whether a second prompt was left out, with everything after it. */
  readonly isCut: boolean;
}

/**
 * Joins the system messages at the start into one, and successive assistant messages into one turn; cuts off everything from the second prompt on.
 * Throws `UnusableTraceError` if the rest does not start with a single user message, or has a system message after it.
 */
export function conversationOf(all: readonly Message[]): TracedConversation {
  const first = all.findIndex(({ role }) => role !== "system");
  const systems = all.slice(0, Math.max(first, 0)).map(({ text }) => text);
  const rest = merged(all.slice(systems.length));
  if (rest[0]?.role !== "user") throw new UnusableTraceError("it does not start with a user message");
  if (rest[1]?.role === "user") throw new UnusableTraceError("it has two user messages in a row");
  const next = rest.findIndex(({ role }, i) => i > 0 && role === "user");
  const kept = next < 0 ? rest : rest.slice(0, next);
  if (kept.some(({ role }) => role === "system"))
    throw new UnusableTraceError("it has a system message after the prompt");
  const system: Message[] = systems.length > 0 ? [{ role: "system", text: systems.join("\n\n") }] : [];
  return { messages: [...system, ...kept], isCut: next >= 0 };
}

/** Some APIs record each call of a turn as a message of its own. */
function merged(messages: readonly Message[]): Message[] {
  const result: Message[] = [];
  for (const message of messages) {
    const last = result.at(-1);
    if (message.role === "assistant" && last?.role === "assistant") {
      const texts = (field: "text" | "thinking") => [last[field], message[field]].filter(Boolean).join("\n");
      const calls = [...last.calls, ...message.calls];
      result[result.length - 1] = { role: "assistant", text: texts("text"), thinking: texts("thinking"), calls };
    } else result.push(message);
  }
  return result;
}

/** A line of the file that `mgrpo sft --demonstrations` reads. Throws `UnusableTraceError` if it is malformed or incomplete. */
export function demonstrationLine(
  messages: readonly Message[],
  agent: string | undefined,
  tools: readonly FunctionTool[] | undefined,
): object {
  const written: object[] = [];
  for (let at = 0; at < messages.length; ) {
    const message = messages[at++] as Message;
    if (message.role === "tool") throw new UnusableTraceError(NO_CALL);
    if (message.role !== "assistant") {
      written.push({ role: message.role, content: message.text });
      continue;
    }
    const responses: Response[] = [];
    for (; messages[at]?.role === "tool"; at++) responses.push(messages[at] as Response);
    if (message.calls.length === 0 && responses.length > 0) throw new UnusableTraceError(NO_CALL);
    if (at === messages.length) refuseUnanswered(message);
    written.push(...turnOf(message, responses));
  }
  if (messages.at(-1)?.role === "user") throw new UnusableTraceError("it has no assistant message");
  return { ...(agent === undefined ? {} : { agent }), messages: written, ...(tools?.length ? { tools } : {}) };
}

const NO_CALL = "it has a tool response without a call";

function refuseUnanswered({ text, calls }: Assistant): void {
  if (calls.length > 0) throw new UnusableTraceError("it ends with tool calls, not with an answer");
  if (text.trim() === "") throw new UnusableTraceError("its answer is empty");
}

/** Ids are written only if every call and response of the turn has one. Otherwise the responses are taken to be in the order of the calls. */
function turnOf({ text, thinking, calls }: Assistant, responses: readonly Response[]): object[] {
  const ids = calls.map(({ id }) => id);
  const answered = responses.map(({ id }) => id);
  const hasIds = calls.length > 0 && [...ids, ...answered].every((id) => id !== undefined);
  const sorted = (all: typeof ids) => all.toSorted().join();
  if (calls.length !== responses.length || (hasIds && sorted(ids) !== sorted(answered))) {
    throw new UnusableTraceError("a tool call does not have exactly one response");
  }
  const id = (name: string, value: string | undefined) => (hasIds ? { [name]: value } : {});
  return [
    {
      role: "assistant",
      content: text === "" && calls.length > 0 ? null : text,
      ...(thinking === "" ? {} : { reasoning_content: thinking }),
      ...(calls.length === 0 ? {} : { tool_calls: calls.map((call) => ({ ...id("id", call.id), ...callOf(call) })) }),
    },
    ...responses.map((response) => ({ role: "tool", ...id("tool_call_id", response.id), content: response.text })),
  ];
}

function callOf({ name, arguments: args }: Call): object {
  const value = jsonIn(args);
  if (value === undefined || value === null || typeof value !== "object" || Array.isArray(value)) {
    throw new UnusableTraceError("the arguments of a tool call are not a JSON object");
  }
  return { type: "function", function: { name, arguments: args } };
}
