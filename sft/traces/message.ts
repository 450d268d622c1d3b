/**
 * @file A message of a conversation, from JSON in any of the conventions. They differ in names, not in content, so one schema reads
 * them all: OpenTelemetry's parts, OpenAI's messages, the AI SDK's, and the content blocks of Anthropic and Bedrock.
 */
import * as z from "zod";
import { exactJsonIn, exactText, type JsonValue, UnusableTraceError, withoutMark } from "./json.ts";
import { isMedia } from "./media.ts";

export interface Call {
  readonly id: string | undefined;
  readonly name: string;
  /** JSON text, possibly malformed; `{}` if no arguments were recorded. */
  readonly arguments: string;
}

export type Message =
  | { readonly role: "system" | "user"; readonly text: string }
  | { readonly role: "assistant"; readonly text: string; readonly thinking: string; readonly calls: readonly Call[] }
  | { readonly role: "tool"; readonly text: string; readonly id: string | undefined };

type MessagePart =
  | { readonly kind: "text" | "thinking"; readonly text: string }
  | { readonly kind: "call"; readonly call: Call }
  | { readonly kind: "response"; readonly id: string | undefined; readonly text: string }
  | { readonly kind: "other"; readonly type: string };

const id = z
  .string()
  .nullish()
  .transform((id) => (id ? withoutMark(id) : undefined));

const text = (text: string): MessagePart => ({ kind: "text", text: withoutMark(text) });
const thinking = (text = ""): MessagePart => ({ kind: "thinking", text: withoutMark(text) });
const call = (id: string | undefined, name: string, args: JsonValue = null): MessagePart => {
  const written = typeof args === "string" ? args : exactText(args ?? {});
  return { kind: "call", call: { id, name, arguments: written.trim() === "" ? "{}" : written } };
};
const MEDIA: MessagePart = { kind: "other", type: "image" };
const response = (id: string | undefined, value: JsonValue = ""): MessagePart =>
  Array.isArray(value) && value.some(isMedia) ? MEDIA : { kind: "response", id, text: textOf(value) };

const TEXT = z.enum(["text", "input_text", "output_text"]);
const THINKING = z.enum(["reasoning", "thinking"]);

const Texts = [
  z.string().transform(text),
  z.object({ type: TEXT, content: z.string() }).transform(({ content }) => text(content)),
  z.object({ type: TEXT.optional(), text: z.string() }).transform((part) => text(part.text)),
  z.object({ type: THINKING, content: z.string() }).transform(({ content }) => thinking(content)),
  z.object({ type: THINKING, thinking: z.string() }).transform((part) => thinking(part.thinking)),
  z.object({ type: THINKING, text: z.string().optional() }).transform((part) => thinking(part.text)),
  z
    .object({ reasoningContent: z.object({ reasoningText: z.object({ text: z.string() }).optional() }) })
    .transform(({ reasoningContent }) => thinking(reasoningContent.reasoningText?.text)),
] as const;

const Calls = [
  z
    .object({ type: z.literal("tool_call"), id, name: z.string(), arguments: z.json().optional() })
    .transform((part) => call(part.id, part.name, part.arguments)),
  z
    .object({ id, function: z.object({ name: z.string(), arguments: z.json().optional() }) })
    .transform((part) => call(part.id, part.function.name, part.function.arguments)),
  z
    .object({
      type: z.literal("tool-call").optional(),
      toolCallId: id,
      toolName: z.string(),
      input: z.json().optional(),
      args: z.json().optional(),
    })
    .transform((part) => call(part.toolCallId, part.toolName, part.input ?? part.args)),
  z
    .object({ type: z.literal("tool_use"), id, name: z.string(), input: z.json().optional() })
    .transform((part) => call(part.id, part.name, part.input)),
  z
    .object({ toolUse: z.object({ toolUseId: id, name: z.string(), input: z.json().optional() }) })
    .transform(({ toolUse }) => call(toolUse.toolUseId, toolUse.name, toolUse.input)),
] as const;

/** In a list of calls, a call needs no type. */
const ListedCall = z.union([
  ...Calls,
  z
    .object({ id, name: z.string(), arguments: z.json().optional() })
    .transform((part) => call(part.id, part.name, part.arguments)),
]);

const Responses = [
  z
    .object({
      type: z.literal("tool_call_response"),
      id,
      response: z.json().optional(),
      result: z.json().optional(),
    })
    .transform((part) => response(part.id, part.response ?? part.result)),
  z
    .object({
      type: z.literal("tool-result"),
      toolCallId: id,
      output: z.json().optional(),
      result: z.json().optional(),
    })
    .transform(({ toolCallId, output, result }) => {
      return response(toolCallId, output === undefined ? result : outputOf(output));
    }),
  z
    .object({ type: z.literal("tool_result"), tool_use_id: id, content: z.json().optional() })
    .transform((part) => response(part.tool_use_id, part.content)),
  z
    .object({ toolResult: z.object({ toolUseId: id, content: z.json().optional() }) })
    .transform(({ toolResult }) => response(toolResult.toolUseId, toolResult.content)),
] as const;

const Other = z
  .looseObject({ type: z.string().default("") })
  .transform(({ type }): MessagePart => ({ kind: "other", type }));

const PartSchema = z.union([...Texts, ...Calls, ...Responses, Other]);
/** A string that is a JSON list of content blocks is read as those blocks: attributes of span events cannot be lists of objects. */
const Blocks = z.array(z.union([...Texts.slice(1), ...Calls, ...Responses])).min(1);
const ResponseBlocks = z.array(z.union(Responses)).min(1);
/** What a string must hold to be read as blocks. Text blocks have only these keys, unlike an answer that is itself a JSON list with `text` keys. */
const WrittenBlock = z.union([
  z.strictObject({ text: z.string() }),
  z.strictObject({
    type: TEXT,
    text: z.string(),
    cache_control: z.json().optional(),
    citations: z.json().optional(),
  }),
  z.strictObject({ type: TEXT, content: z.string() }),
  z.strictObject({ reasoningContent: z.json() }),
  z.strictObject({ toolUse: z.json() }),
  z.strictObject({ toolResult: z.json() }),
  z.strictObject({ type: z.literal("function"), id: z.string(), function: z.json() }),
  z.looseObject({ type: z.enum([...THINKING.options, "tool_call", "tool-call", "tool_use"]) }),
  z.looseObject({ type: z.enum(["tool_call_response", "tool-result", "tool_result"]) }),
]);

export const RawMessage = z.object({
  role: z.string().nullish(),
  parts: z.array(PartSchema).optional(),
  content: z.union([z.string(), z.array(PartSchema)]).nullish(),
  reasoning_content: z.string().nullish(),
  tool_calls: z.array(ListedCall).nullish(),
  tool_call_id: id,
  id,
  finish_reason: z.string().nullish(),
});
export type RawMessage = z.output<typeof RawMessage>;

const ROLES = new Map<string, Message["role"]>([
  ["system", "system"],
  ["developer", "system"],
  ["user", "user"],
  ["human", "user"],
  ["assistant", "assistant"],
  ["ai", "assistant"],
  ["model", "assistant"],
  ["tool", "tool"],
  ["function", "tool"],
]);

/** @param missing the role of a message that names none. Undefined: an unknown role. */
export const roleOf = ({ role }: RawMessage, missing = ""): Message["role"] | undefined =>
  ROLES.get((role ?? missing).toLowerCase());

/** What OpenInference writes in place of hidden content. */
const REDACTED = "__REDACTED__";

/** Whether nothing of the message was captured: no text, thinking or calls. */
export function isEmpty(raw: RawMessage): boolean {
  const { parts, content, reasoning_content: thought, tool_calls: calls } = raw;
  return [parts, content, thought, calls].every((field) => field === undefined || field === null || field.length === 0);
}

/** Whether any text of the message was hidden. */
export function isRedacted({ parts, content }: RawMessage): boolean {
  if (content === REDACTED) return true;
  return [...(parts ?? []), ...(Array.isArray(content) ? content : [])].some((part) => {
    return "text" in part && part.text === REDACTED;
  });
}

/** Whether the message calls a tool. */
export function hasCalls({ parts, content, tool_calls: calls }: RawMessage): boolean {
  const blocks = [...(parts ?? []), ...(Array.isArray(content) ? content : [])];
  return (calls ?? []).length > 0 || blocks.some(({ kind }) => kind === "call");
}

interface ReadingOptions {
  /** Whether a string may be a list of content blocks. OpenAI's messages have lists instead. */
  readonly stringsMayBeBlocks: boolean;
}

/** A raw message as one or more messages: each tool response becomes a message of its own. Throws `UnusableTraceError`. */
export function messagesOf(raw: RawMessage, options: ReadingOptions): Message[] {
  const role = roleOf(raw);
  if (role === undefined) throw new UnusableTraceError("a message has an unknown role");
  const parts = partsOf(raw, role, options);
  for (const part of parts) if (part.kind === "other") throw new UnusableTraceError(unsupported(part.type));
  const written = joined(parts, "text", "");
  const responses = parts.filter((part) => part.kind === "response");
  const toolMessages = responses.map(({ id, text }): Message => ({ role: "tool", id, text }));
  if (role === "tool") {
    return toolMessages.length > 0 ? toolMessages : [{ role, id: raw.tool_call_id ?? raw.id, text: written }];
  }
  if (role === "system") return [{ role, text: written }];
  if (role === "user") {
    return toolMessages.length > 0 && written === "" ? toolMessages : [...toolMessages, { role, text: written }];
  }
  if (toolMessages.length > 0) throw new UnusableTraceError(PROVIDER_TOOLS);
  const calls = parts.filter((part) => part.kind === "call").map((part) => part.call);
  return [{ role, text: written, thinking: joined(parts, "thinking", "\n"), calls }];
}

function partsOf(
  raw: RawMessage,
  role: Message["role"],
  { stringsMayBeBlocks }: ReadingOptions,
): readonly MessagePart[] {
  const { content, reasoning_content: thought } = raw;
  const inString = (written: string) => (stringsMayBeBlocks ? blocksIn(written, role) : [text(written)]);
  const parts = raw.parts ?? (typeof content === "string" ? inString(content) : (content ?? []));
  // If both the parts and `tool_calls` list calls, they are the same calls.
  const calls = raw.tool_calls ?? [];
  const rest = calls.length > 0 ? parts.filter(({ kind }) => kind !== "call") : parts;
  return [...(thought ? [thinking(thought)] : []), ...rest, ...calls];
}

function blocksIn(content: string, role: Message["role"]): readonly MessagePart[] {
  const value = /^\s*\[\s*\{/.test(content) ? exactJsonIn(content) : undefined;
  const written = Array.isArray(value) ? (value as readonly JsonValue[]) : [];
  if (!written.every((block) => isMedia(block) || WrittenBlock.safeParse(block).success)) return [text(content)];
  if (written.some(isMedia)) return [MEDIA];
  const blocks = (role === "tool" ? ResponseBlocks : Blocks).safeParse(value);
  return blocks.success ? blocks.data : [text(content)];
}

function joined(parts: readonly MessagePart[], kind: "text" | "thinking", separator: string): string {
  return parts.flatMap((part) => (part.kind === kind ? [part.text] : [])).join(separator);
}

const PROVIDER_TOOLS = "it has calls of tools that the provider ran";

function unsupported(type: string): string {
  if (/^server_tool|web_search|code_interpreter|mcp/.test(type)) return PROVIDER_TOOLS;
  if (/^(blob|file|uri|document)$|image|audio|video/.test(type)) return "it has images, audio or files";
  return "it has parts of an unknown type";
}

const Typed = z.object({ type: z.string(), value: z.json() });

/** The AI SDK wraps a tool's output: `{"type": "json", "value": …}`. The value of a tool that returns nothing is null. */
function outputOf(output: JsonValue): JsonValue {
  const typed = Typed.safeParse(output);
  return typed.success ? typed.data.value : output;
}

/** A list with any other object is the tool's own JSON, such as search results with a `title` and a `text`. */
const TextBlocks = z
  .array(
    z.union([
      z.strictObject({ text: z.string() }),
      z.looseObject({ type: TEXT, text: z.string() }),
      z.strictObject({ json: z.json() }),
    ]),
  )
  .min(1);

/** A response as its tool returned it: a string, the text of its blocks, or JSON. */
function textOf(value: JsonValue): string {
  if (typeof value === "string") return withoutMark(value);
  const blocks = TextBlocks.safeParse(value);
  if (!blocks.success) return exactText(value);
  return blocks.data.map((block) => ("text" in block ? block.text : exactText(block.json))).join("");
}
