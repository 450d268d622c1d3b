/**
 * @file Demonstrations as JSON Lines of OpenAI chat messages, one conversation per line:
 *
 *     {"messages": [{"role": "user", …}, {"role": "assistant", "tool_calls": […]}, {"role": "tool", …}, {"role": "assistant", …}],
 *      "tools": […], "agent": "searcher"}                                                          the last two are optional
 *
 * A line that contradicts the agent's config, or has a message or key that does not belong in a demonstration, is refused; the error gives the
 * line's number. Of its tools, only the names are compared with the agent's.
 * A line of an app's agent has the app's own system message and tools (app-example.ts).
 */
import * as z from "zod";
import type { AppMessage } from "../core/contracts/app-chat.ts";
import { parseJson } from "../core/contracts/parse.ts";
import { sampledText, turnText } from "../core/conversation/api-turn.ts";
import type { ToolOffer } from "../core/conversation/offered-tool.ts";
import { MgrpoError } from "../core/errors.ts";
import { splitThinking } from "../core/gateway/reply.ts";
import type { ApiToolCall, AssistantTurn } from "../core/language-model-ports.ts";
import type { Demonstration } from "../core/recipe.ts";

/** A demonstration, and its location, with which error messages about it start. */
export interface LocatedDemonstration {
  readonly demonstration: Demonstration;
  readonly where: string;
}

/** A line of a file, not yet checked against the agent that it is for. */
export interface MessagesLine extends LocatedDemonstration {
  /** Undefined: the line does not say which agent it is for. */
  readonly agent: string | undefined;
  /** The line's system message; undefined: none. */
  readonly system: string | undefined;
  /** The line's tools; undefined: it lists none. */
  readonly tools: readonly ToolOffer[] | undefined;
  /** The turns of the same conversation, if its agent is an app's. */
  readonly turns: readonly AppTurn[];
}

/** A turn of an app's agent, as the gateway would have it. */
export interface AppTurn {
  /** What the agent samples. */
  readonly text: string;
  readonly reply: Extract<AppMessage, { role: "assistant" }>;
  /** In the order of its calls. */
  readonly responses: readonly Extract<AppMessage, { role: "tool" }>[];
}

const Text = z
  .union([z.string(), z.array(z.strictObject({ type: z.literal("text"), text: z.string() }))])
  .transform((content) => (typeof content === "string" ? content : content.map(({ text }) => text).join("")));

const WrittenCall = z.strictObject({
  id: z.string().optional(),
  type: z.literal("function").optional(),
  function: z.strictObject({
    name: z.string(),
    arguments: z.union([z.string(), z.record(z.string(), z.json())]),
  }),
});

const WrittenMessage = z.discriminatedUnion("role", [
  z.strictObject({ role: z.literal("system"), content: Text }),
  z.strictObject({ role: z.literal("user"), content: Text }),
  z.strictObject({
    role: z.literal("assistant"),
    content: Text.nullish(),
    reasoning_content: z.string().nullish(),
    tool_calls: z.array(WrittenCall).nullish(),
  }),
  z.strictObject({
    role: z.literal("tool"),
    content: Text,
    tool_call_id: z.string().optional(),
    name: z.string().optional(),
  }),
]);
type WrittenMessage = z.infer<typeof WrittenMessage>;
type Assistant = Extract<WrittenMessage, { role: "assistant" }>;
type ToolMessage = Extract<WrittenMessage, { role: "tool" }>;

const WrittenLine = z.strictObject({
  messages: z.array(WrittenMessage).min(1),
  tools: z
    .array(
      z.looseObject({
        function: z.looseObject({
          name: z.string(),
          description: z.string().nullish(),
          parameters: z.json().nullish(),
        }),
      }),
    )
    .optional(),
  agent: z.string().optional(),
});

/** Reads the text of a file. Empty lines are skipped but counted. */
export function readMessages(text: string, file: string): MessagesLine[] {
  return text.split("\n").flatMap((line, i) => {
    if (line.trim() === "") return [];
    const where = `${file}:${i + 1}`;
    // trim() also removes a byte order mark.
    const { messages, tools, agent } = parseJson(WrittenLine, line.trim(), where, "demonstrations-invalid");
    const [first] = messages;
    const system = first?.role === "system" ? first.content : undefined;
    const offers = tools?.map(({ function: { name, description, parameters } }) => ({ name, description, parameters }));
    const { prompt, turns } = conversationOf(system === undefined ? messages : messages.slice(1), where);
    const written = turns.map(({ turn, responses }) => ({ text: turnText(turn), responses }));
    const demonstration = { prompt, turns: written };
    return [{ where, agent, system, tools: offers, demonstration, turns: turns.map(appTurnOf) }];
  });
}

interface WrittenTurn {
  readonly turn: Pick<AssistantTurn, "thinking" | "text" | "calls">;
  readonly responses: readonly string[];
}

function conversationOf(
  [user, ...rest]: readonly WrittenMessage[],
  where: string,
): { prompt: string; turns: readonly WrittenTurn[] } {
  if (user?.role !== "user")
    throw invalidDemonstration(where, "the first message, or the one after the system message, must be the user's");
  const turns: WrittenTurn[] = [];
  for (let at = 0; at < rest.length; ) {
    const turn = rest[at];
    if (turn?.role !== "assistant") {
      throw invalidDemonstration(
        where,
        `message ${at + 2}, not counting a system message, must be the assistant's, not of role '${turn?.role}': a conversation has one prompt, and responses follow calls`,
      );
    }
    const responses: ToolMessage[] = [];
    for (at++; rest[at]?.role === "tool"; at++) responses.push(rest[at] as ToolMessage);
    turns.push({ turn: turnOf(turn), responses: inOrder(turn, responses, where) });
  }
  return { prompt: user.content, turns };
}

function turnOf({ content, reasoning_content: thinking, tool_calls: calls }: Assistant): WrittenTurn["turn"] {
  const written = (calls ?? []).map(({ function: { name, arguments: args } }): ApiToolCall => {
    return { id: "", name, arguments: typeof args === "string" ? args : JSON.stringify(args) };
  });
  return { thinking: thinking ?? "", text: content ?? "", calls: written };
}

function appTurnOf({ turn, responses }: WrittenTurn): AppTurn {
  const { calls } = turn;
  // Some servers leave the thinking in the content. The gateway separates it.
  const { text } = splitThinking(sampledText({ ...turn, calls: [] }));
  return {
    text: sampledText(turn),
    reply: { role: "assistant", text, calls: calls.map((call, i) => ({ ...call, id: `call_${i}` })) },
    responses: responses.map((response, call) => ({ role: "tool", call, text: response })),
  };
}

/**
 * The responses in the order of the calls: by id, or by position where the calls have none. Some servers give equal or empty ids to the calls
 * of a turn: then the first response with an id answers the first call with it. A response that names a tool other than its call's is refused.
 */
function inOrder({ tool_calls }: Assistant, responses: readonly ToolMessage[], where: string): string[] {
  const calls = (tool_calls ?? []).map(({ id, function: { name } }) => ({ id: id || undefined, name }));
  if (responses.length === 0) return [];
  if (responses.length !== calls.length)
    throw invalidDemonstration(where, `a turn has ${calls.length} tool calls and ${responses.length} responses`);
  const hasIds = calls.some(({ id }) => id !== undefined);
  const left = [...responses];
  return calls.map(({ id, name }) => {
    const at = hasIds ? left.findIndex(({ tool_call_id: of }) => (of || undefined) === id) : 0;
    const [response] = at < 0 ? [] : left.splice(at, 1);
    if (!response)
      throw invalidDemonstration(where, `no tool message answers the call '${id ?? ""}': check tool_call_id`);
    if ((response.name || name) === name) return response.content;
    throw invalidDemonstration(
      where,
      `a tool message of '${response.name}' answers a call of '${name}': check tool_call_id, or the order if there are no ids`,
    );
  });
}

export const invalidDemonstration = (
  where: string,
  fault: string,
  options?: ConstructorParameters<typeof MgrpoError>[2],
) => new MgrpoError("demonstrations-invalid", `${where}: ${fault}`, options);
