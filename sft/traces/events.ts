/** @file Model calls with an event per message, as in OpenTelemetry's conventions up to version 1.36. */
import { exactJsonIn, type JsonObject, parseAttribute } from "./json.ts";
import { RawMessage } from "./message.ts";
import type { OtlpSpanEvent } from "./otlp.ts";
import { choicesOf, type RecordedCall } from "./recorded-call.ts";

const EVENT = /^gen_ai\.(?:(system|user|assistant|tool)\.message|choice)$/;

export function callFromEvents(events: readonly OtlpSpanEvent[]): RecordedCall | undefined {
  const input: RawMessage[] = [];
  const output: RawMessage[] = [];
  for (const event of events) {
    const match = EVENT.exec(event.name);
    if (!match) continue;
    const [, role] = match;
    const message = parseAttribute(RawMessage, fieldsOf(event, role ?? "assistant"), event.name);
    (role === undefined ? output : input).push(message);
  }
  if (input.length + output.length === 0) return;
  return { input: withoutRepeats(input), choices: choicesOf(output), tools: undefined };
}

/** A choice has its message as a field, which may be text. Tool calls may be JSON in a string, since event attributes have no structure. */
function fieldsOf({ fields }: OtlpSpanEvent, role: string): JsonObject {
  const { message, tool_calls: calls } = fields;
  const inner = typeof message === "string" ? { content: message } : (message as JsonObject | null | undefined);
  const parsed = typeof calls === "string" ? exactJsonIn(calls) : undefined;
  return { ...fields, ...inner, ...(parsed === undefined ? {} : { tool_calls: parsed }), role };
}

/** Instrumentations of Bedrock record a tool's response twice: as a tool message, and in the user message that carried it. */
function withoutRepeats(input: readonly RawMessage[]): RawMessage[] {
  const answered = new Set(input.flatMap(({ role, id }) => (role === "tool" && id !== undefined ? [id] : [])));
  return input.filter(({ role, content }) => {
    if (role !== "user" || !Array.isArray(content) || content.length === 0) return true;
    return !content.every((part) => part.kind === "response" && part.id !== undefined && answered.has(part.id));
  });
}
