/**
 * @file Reads a model call from a span. The conventions, in the order in which they are tried, with examples of their attributes or events:
 *
 *     OpenTelemetry  gen_ai.input.messages, gen_ai.output.messages, gen_ai.system_instructions, gen_ai.tool.definitions
 *     AI SDK         ai.prompt.messages, ai.response.text, ai.response.reasoning, ai.response.toolCalls, ai.prompt.tools
 *     OpenInference  llm.input_messages.0.message.role, llm.output_messages.0.message.content, llm.tools.0.tool.json_schema
 *     OpenLLMetry    gen_ai.prompt.0.role, gen_ai.completion.0.content, llm.request.functions.0.name
 *     events         gen_ai.user.message, gen_ai.assistant.message, gen_ai.tool.message, gen_ai.choice
 */
import * as z from "zod";
import { callFromEvents } from "./events.ts";
import { openInference, openLlmetry } from "./indexed.ts";
import { exactJsonIn, type JsonObject, type JsonValue, jsonIn, parseAttribute, UnusableTraceError } from "./json.ts";
import { RawMessage } from "./message.ts";
import type { OtlpSpan } from "./otlp.ts";
import { choicesOf, type RecordedCall } from "./recorded-call.ts";
import { ToolDefinition } from "./tools.ts";

const Messages = z.array(RawMessage);
const Tools = z.array(ToolDefinition);

/** Undefined: the span has no messages, or its operation is one of OTHER_OPERATIONS. Throws `UnusableTraceError`. */
export function readCall(span: OtlpSpan): RecordedCall | undefined {
  if (OTHER_OPERATIONS.includes(span.attributes["gen_ai.operation.name"] ?? "")) return;
  return (
    openTelemetry(span.attributes) ??
    aiSdk(span.attributes) ??
    openInference(span.attributes) ??
    openLlmetry(span.attributes) ??
    callFromEvents(span.events)
  );
}

/** Whether a span without messages is a model call whose content was not captured. */
export function isModelCall({ attributes }: OtlpSpan): boolean {
  const operation = attributes["gen_ai.operation.name"] ?? attributes["llm.request.type"];
  if (operation !== undefined) return MODEL_CALLS.includes(operation);
  if (attributes["openinference.span.kind"] !== undefined) return attributes["openinference.span.kind"] === "LLM";
  const sdk = attributes["ai.operationId"];
  if (sdk !== undefined) return /\.do(Generate|Stream)$/.test(String(sdk));
  return attributes["gen_ai.request.model"] !== undefined;
}

/**
 * Operations whose spans are never read as model calls, even with messages: some frameworks record a tool's arguments and result as message
 * events. `invoke_agent` is not among them: an agent's span with messages counts as a call unless it encloses others (import.ts).
 */
const OTHER_OPERATIONS: readonly JsonValue[] = ["execute_tool", "create_agent", "embeddings", "retrieval"];
const MODEL_CALLS: readonly JsonValue[] = ["chat", "generate_content", "text_completion", "completion"];

function openTelemetry(attributes: JsonObject): RecordedCall | undefined {
  const {
    "gen_ai.input.messages": input,
    "gen_ai.output.messages": output,
    "gen_ai.system_instructions": system,
    "gen_ai.tool.definitions": tools,
  } = attributes;
  if (input === undefined && output === undefined) return;
  const messagesIn = (value: JsonValue | undefined, name: string) =>
    value === undefined ? [] : parseAttribute(Messages, value, name);
  return {
    input: [...instructions(system), ...messagesIn(input, "gen_ai.input.messages")],
    choices: choicesOf(messagesIn(output, "gen_ai.output.messages")),
    tools: tools === undefined ? undefined : parseAttribute(Tools, tools, "gen_ai.tool.definitions"),
  };
}

/** A list of parts, or a text. */
function instructions(value: JsonValue | undefined): RawMessage[] {
  if (value === undefined || value === null) return [];
  const parts = typeof value === "string" ? jsonIn(value) : value;
  const content = Array.isArray(parts) ? parts : value;
  return [parseAttribute(RawMessage, { role: "system", content }, "gen_ai.system_instructions")];
}

function aiSdk(attributes: JsonObject): RecordedCall | undefined {
  const {
    "ai.prompt.messages": prompt,
    "ai.response.text": text,
    "ai.response.object": object,
    "ai.response.reasoning": thinking,
    "ai.response.toolCalls": calls,
    "ai.prompt.tools": tools,
  } = attributes;
  if (prompt === undefined) return;
  const output = {
    role: "assistant",
    content: text ?? object ?? "",
    reasoning_content: thinking ?? null,
    tool_calls: typeof calls === "string" ? (exactJsonIn(calls) ?? calls) : (calls ?? []),
  };
  const hasOutput = [text, object, calls].some((field) => field !== undefined);
  return {
    input: parseAttribute(Messages, prompt, "ai.prompt.messages"),
    choices: hasOutput ? [[parseAttribute(RawMessage, output, "ai.response")]] : [],
    tools: tools === undefined ? undefined : parseAttribute(Tools, tools, "ai.prompt.tools"),
  };
}

/**
 * Finish reasons of a model that did not finish its message: of OpenAI, Anthropic, Bedrock and Google, and of servers that broke off an
 * answer (vLLM and SGLang, DeepSeek, GLM).
 */
const CUT_OFF =
  /^(length|max_?(output_)?tokens|model_context_window_exceeded|incomplete|pause_turn|malformed_function_call|error|abort|insufficient_system_resource|network_error)$/i;
const FILTERED =
  /^(content[-_]filter(ed)?|guardrail_intervened|refusal|sensitive|safety|recitation|blocklist|prohibited_content|spii)$/i;

/** Throws `UnusableTraceError` if the model did not finish choice `i`. */
export function refuseCutOff({ attributes }: OtlpSpan, { choices }: RecordedCall, i: number): void {
  const written = attributes["gen_ai.response.finish_reasons"];
  const parsed = typeof written === "string" ? (jsonIn(written) ?? written) : written;
  const listed = Array.isArray(parsed) ? parsed : [parsed];
  const own = (choices[i] ?? []).flatMap((message) => message.finish_reason ?? []);
  const isListed = listed.length === choices.length;
  const known = [...own, ...(isListed ? [listed[i]] : [])];
  const shared = [...(isListed ? [] : listed), attributes["ai.response.finishReason"], attributes["llm.finish_reason"]];
  // A reason of the whole call may be that of another choice.
  const reasons = choices.length > 1 && known.length > 0 ? known : [...known, ...shared];
  if (reasons.map(String).some((reason) => CUT_OFF.test(reason) || FILTERED.test(reason)))
    throw new UnusableTraceError("the model did not finish its message");
}
