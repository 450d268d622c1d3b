/**
 * @file Reads a file of traces, recognized by its content: OTLP JSON, as one document or one per line, or OpenAI messages, one conversation per
 * line. A file that is not UTF-8 is refused, as is one with a line that does not parse or is neither; the error then gives the line. OTLP
 * metrics are skipped.
 */
import { constants, isUtf8 } from "node:buffer";
import * as z from "zod";
import { parse } from "../../core/contracts/parse.ts";
import { exactJsonIn, type JsonObject, type JsonValue, jsonIn, UnusableTraceError, unreadableTrace } from "./json.ts";
import { RawMessage } from "./message.ts";
import { isOtlp, type Traces } from "./otlp.ts";
import { ToolDefinition } from "./tools.ts";

/** A conversation of a file of OpenAI messages. */
export interface RawMessagesLine {
  readonly messages: readonly OpenAiMessage[];
  readonly tools: readonly ToolDefinition[] | undefined;
  readonly agent: string | undefined;
  /** The line's other keys; nested keys are joined by dots. */
  readonly attributes: JsonObject;
  readonly where: string;
}

const { parts: _, ...fields } = RawMessage.shape;
const OpenAiMessage = z.strictObject({
  ...fields,
  role: z.string(),
  name: z.string().nullish(),
  refusal: z.json().optional(),
  audio: z.json().optional(),
  annotations: z.json().optional(),
  function_call: z.json().optional(),
});
export type OpenAiMessage = z.output<typeof OpenAiMessage>;

/** Throws `UnusableTraceError` if a field that OpenAI's API leaves empty in most messages is not: the import would drop its content. */
export function refuseLostContent({ refusal, audio, annotations, function_call: call }: OpenAiMessage): void {
  const isEmpty = (field: JsonValue | undefined) => field == null || (Array.isArray(field) && field.length === 0);
  if (!isEmpty(refusal)) throw new UnusableTraceError("the model refused to answer");
  if (!isEmpty(audio)) throw new UnusableTraceError("it has images, audio or files");
  if (!isEmpty(annotations)) throw new UnusableTraceError("a message has annotations");
  if (!isEmpty(call)) throw new UnusableTraceError("a message has a function_call: write it as tool_calls");
}

const OpenAiLine = z.looseObject({
  messages: z.array(OpenAiMessage),
  tools: z.array(ToolDefinition).nullish(),
  agent: z.string().nullish(),
});

const NOT_JSON =
  "not JSON: give traces as the OpenTelemetry collector's file exporter writes them (format: json, not compressed), or OpenAI messages as JSON Lines";

const DOCUMENT_TOO_LONG =
  "not JSON, and the file is too long to be read as one document: give it as JSON Lines, or as smaller files";

const LINE_TOO_LONG = "the line is too long to be read: give one document or conversation per line, or smaller files";

/** Adds the spans to `traces`, and returns the conversations of OpenAI messages. */
export function readTraceFile(bytes: Uint8Array, file: string, traces: Traces): RawMessagesLine[] {
  // Other bytes would become U+FFFD, which the agents would learn to write.
  if (!isUtf8(bytes)) throw unreadableTrace(file, "not UTF-8 text: convert it to UTF-8, or decompress it");
  const lines: RawMessagesLine[] = [];
  for (const { value, where, whereIs } of valuesOf(bytes, file)) {
    if (isOtlp(value)) traces.add(value, where, whereIs);
    else lines.push(...lineOf(value, where));
  }
  return lines;
}

interface Value {
  readonly value: JsonValue;
  readonly where: string;
  /** The location of a span within it. */
  readonly whereIs: (spanId: string) => string;
}

function* valuesOf(bytes: Uint8Array, file: string): Generator<Value> {
  let isFirst = true;
  for (const { text, number } of linesOf(bytes, file)) {
    const where = `${file}:${number}`;
    const value = traceIn(text);
    if (value === undefined) {
      // Text has at most as many characters as bytes.
      if (isFirst && bytes.length > constants.MAX_STRING_LENGTH) throw unreadableTrace(where, DOCUMENT_TOO_LONG);
      const document = isFirst ? traceIn(new TextDecoder().decode(bytes)) : undefined;
      if (document === undefined) throw unreadableTrace(where, NOT_JSON);
      return yield { value: document, where, whereIs: spanLines(bytes, file, where) };
    }
    isFirst = false;
    yield { value, where, whereIs: () => where };
  }
}

/** An integer that is written as a number instead of text, and that a number may round. */
const LONG_INT_VALUE = /"intValue"\s*:\s*(-?\d{16,})(?![\d.eE])/g;

/** OTLP, or OpenAI messages, in which any number may be such an integer. */
function traceIn(text: string): JsonValue | undefined {
  const value = jsonIn(text.replace(LONG_INT_VALUE, '"intValue":"$1"'));
  return value === undefined || isOtlp(value) ? value : exactJsonIn(text);
}

/** The lines that are not empty, each with its number in the file. A file may be longer than a string can be; a line may not. */
function* linesOf(bytes: Uint8Array, file: string): Generator<{ text: string; number: number }> {
  const decoder = new TextDecoder();
  for (let start = 0, number = 1; start < bytes.length; number++) {
    const end = bytes.indexOf(10, start);
    const stop = end < 0 ? bytes.length : end;
    if (stop - start > constants.MAX_STRING_LENGTH) throw unreadableTrace(`${file}:${number}`, LINE_TOO_LONG);
    const text = decoder.decode(bytes.subarray(start, stop));
    if (text.trim() !== "") yield { text, number };
    start = stop + 1;
  }
}

/** In a document of several lines: the first line with the span's `spanId`. */
function spanLines(bytes: Uint8Array, file: string, where: string): (spanId: string) => string {
  const found = new Map<string, string>();
  for (const { text, number } of linesOf(bytes, file)) {
    const [, id] = /"spanId"\s*:\s*"([^"]+)"/.exec(text) ?? [];
    if (id !== undefined && !found.has(id)) found.set(id, `${file}:${number}`);
  }
  return (spanId) => found.get(spanId) ?? where;
}

function lineOf(value: JsonValue, where: string): RawMessagesLine[] {
  const object = value !== null && typeof value === "object" && !Array.isArray(value) ? value : {};
  // The collector writes metrics into the same file if its pipelines share the exporter.
  if ("resourceMetrics" in object) return [];
  if (!("messages" in object)) {
    throw unreadableTrace(where, "neither OTLP JSON (resourceSpans, resourceLogs) nor OpenAI messages (messages)");
  }
  const { messages, tools, agent, ...rest } = parse(OpenAiLine, value, where, "demonstrations-invalid");
  const attributes = flat(rest as JsonObject);
  return [{ messages, tools: tools ?? undefined, agent: agent ?? undefined, attributes, where }];
}

function flat(attributes: JsonObject, prefix = ""): JsonObject {
  const entries = Object.entries(attributes).map(([key, value]): JsonObject => {
    const isObject = value !== null && typeof value === "object" && !Array.isArray(value);
    return isObject ? flat(value as JsonObject, `${prefix}${key}.`) : { [prefix + key]: value };
  });
  return Object.assign({}, ...entries);
}
