/**
 * @file Traces of existing agents as demonstrations: recorded model calls, filtered, joined into conversations, and written as OpenAI
 * messages. The report counts every call: taken, contained in another one, or skipped for a reason.
 */
import { isModelCall, readCall, refuseCutOff } from "./conventions.ts";
import { conversationOf, demonstrationLine, type TracedConversation } from "./conversation.ts";
import { ImportReport } from "./import-report.ts";
import { type Joined, joinConversations, withThinking } from "./join.ts";
import { type JsonValue, UnusableTraceError, withoutMark } from "./json.ts";
import { isEmpty, isRedacted, type Message, messagesOf, type RawMessage } from "./message.ts";
import { type OtlpSpan, Traces } from "./otlp.ts";
import { type RawMessagesLine, readTraceFile, refuseLostContent } from "./read.ts";
import type { RecordedCall } from "./recorded-call.ts";
import { ownTools, type ToolDefinition } from "./tools.ts";

export interface TraceImportOptions {
  /** Takes this agent's conversations, and those that name none. */
  readonly agent?: string;
  /** The agent that the demonstrations are for. Absent: the name in the traces, or `agent` for conversations that name none. */
  readonly as?: string;
  readonly conditions: readonly { readonly attribute: string; readonly value: string }[];
  readonly score?: { readonly name: string; readonly min: number };
  /** Whether system messages are written. */
  readonly system: boolean;
}

export interface TraceFile {
  readonly file: string;
  readonly bytes: Uint8Array;
}

export interface Imported {
  readonly lines: readonly object[];
  readonly report: ImportReport;
}

interface Candidate extends TracedConversation {
  readonly agent: string | undefined;
  /** Names the recorded conversation that the call belongs to. */
  readonly scope: string;
  /** Of calls that are joined, the longest that has a score decides. */
  readonly score: number | undefined;
  readonly tools: readonly ToolDefinition[] | undefined;
  readonly where: string;
}

/** A model call, from a span or from a line of messages. */
interface CallSource {
  readonly where: string;
  readonly scope: string;
  readonly agent: string | undefined;
  readonly attribute: (name: string) => JsonValue | undefined;
  readonly score: (name: string) => JsonValue | undefined;
}

export function importTraces(files: Iterable<TraceFile>, options: TraceImportOptions): Imported {
  const traces = new Traces();
  const report = new ImportReport();
  const fromLines: Candidate[] = [];
  for (const { file, bytes } of files) {
    for (const line of readTraceFile(bytes, file, traces)) fromLines.push(...candidatesOfLine(line, options, report));
  }
  // An array literal, since `push(...)` of hundreds of thousands of calls would overflow the stack.
  const candidates = [...fromLines, ...candidatesOfSpans(traces, options, report)];
  const scored = scopesOf(candidates).flatMap((scope) => takeScored(scope, options, report));
  return { lines: joinAndCount(scored, report).flatMap((one) => write(one, options, report)), report };
}

function candidatesOfLine(line: RawMessagesLine, options: TraceImportOptions, report: ImportReport): Candidate[] {
  const { where, agent, attributes, messages, tools } = line;
  const attribute = (name: string) => attributes[name];
  report.found++;
  return report.attempt(where, () => {
    const source = { where, scope: where, agent, attribute, score: attribute };
    refuseFiltered(source, options);
    for (const message of messages) refuseLostContent(message);
    const read = messages.flatMap((raw) => messagesOf(raw, { stringsMayBeBlocks: false }));
    return [candidateOf(source, read, tools, options)];
  });
}

function candidatesOfSpans(traces: Traces, options: TraceImportOptions, report: ImportReport): Candidate[] {
  const calls = modelCalls(traces.spans(), report);
  const enclosing = new Set(calls.flatMap(({ span }) => [...traces.lineage(span)].slice(1)));
  return calls.flatMap(({ span, exchanges }) =>
    exchanges.flatMap((exchange) =>
      report.attempt(span.where, () => {
        // A span around a whole agent has its prompt and its answer: without the calls in between, they teach the model to guess.
        if (enclosing.has(span)) throw new UnusableTraceError("it encloses other model calls, which count instead");
        const source = sourceOf(traces, span);
        refuseFiltered(source, options);
        return candidatesOfExchange(source, span, exchange, options, report);
      }),
    ),
  );
}

interface ModelCallSpan {
  readonly span: OtlpSpan;
  /** One, which is undefined if no content was captured; none if it is malformed. */
  readonly exchanges: readonly (RecordedCall | undefined)[];
}

function modelCalls(spans: readonly OtlpSpan[], report: ImportReport): ModelCallSpan[] {
  return spans.flatMap((span) => {
    const exchanges = report.attempt(span.where, () => [readCall(span)]);
    if (exchanges[0] || exchanges.length === 0 || isModelCall(span)) {
      report.found++;
      return [{ span, exchanges }];
    }
    report.otherSpans++;
    return [];
  });
}

const AGENT = ["gen_ai.agent.name", "agent.name", "ai.telemetry.functionId"];
const CONVERSATION = ["gen_ai.conversation.id", "session.id"];

function sourceOf(traces: Traces, span: OtlpSpan): CallSource {
  const first = (names: readonly string[]) =>
    names.map((name) => traces.attribute(span, name)).find((value) => value !== undefined);
  const agent = first(AGENT);
  return {
    where: span.where,
    scope: String(first(CONVERSATION) ?? span.trace),
    agent: agent === undefined ? undefined : plainText(agent),
    attribute: (name) => traces.attribute(span, name) ?? span.resource[name],
    score: (name) => traces.score(span, name),
  };
}

function refuseFiltered({ agent, attribute }: CallSource, options: TraceImportOptions): void {
  if (options.agent !== undefined && agent !== undefined && agent !== options.agent) {
    throw new UnusableTraceError("another agent");
  }
  for (const { attribute: name, value } of options.conditions) {
    const found = attribute(name);
    const values: readonly (JsonValue | undefined)[] = Array.isArray(found) ? found : [found];
    if (!values.some((one) => one !== undefined && plainText(one) === value)) {
      throw new UnusableTraceError(`${name} is not ${value}`);
    }
  }
}

/** Says what to set so that content is captured: every instrumentation leaves it out by default, or can hide it. */
function refuseWithoutContent({ attributes }: OtlpSpan): never {
  if (attributes["ai.operationId"] !== undefined) {
    throw new UnusableTraceError("no content: set recordInputs and recordOutputs of the AI SDK's telemetry to true");
  }
  if (attributes["openinference.span.kind"] !== undefined) {
    throw new UnusableTraceError(
      "no content: unset OPENINFERENCE_HIDE_INPUTS, OPENINFERENCE_HIDE_OUTPUTS and the like",
    );
  }
  throw new UnusableTraceError(
    "no content: set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT, to span_only or, for older instrumentations, to true",
  );
}

function candidatesOfExchange(
  source: CallSource,
  span: OtlpSpan,
  exchange: RecordedCall | undefined,
  options: TraceImportOptions,
  report: ImportReport,
): Candidate[] {
  if (span.failed || span.attributes["error.type"] !== undefined) throw new UnusableTraceError("the call failed");
  if (!exchange) return refuseWithoutContent(span);
  const { input, choices, tools } = exchange;
  const isMissing = (raw: RawMessage) => raw.role !== "assistant" && raw.role !== "tool" && isEmpty(raw);
  const isHidden = input.some(isMissing) || choices.flat().every(isEmpty) || input.some(isRedacted);
  if (input.length === 0 || isHidden) refuseWithoutContent(span);
  const prompt = input.flatMap((raw) => messagesOf(raw, { stringsMayBeBlocks: true }));
  report.found += choices.length - 1;
  return choices.flatMap((choice, i) =>
    report.attempt(span.where, () => {
      if (choice.some(isRedacted)) refuseWithoutContent(span);
      refuseCutOff(span, exchange, i);
      const end = choice.flatMap((raw) =>
        messagesOf({ ...raw, role: raw.role ?? "assistant" }, { stringsMayBeBlocks: true }),
      );
      return [candidateOf(source, [...prompt, ...end], tools, options)];
    }),
  );
}

function candidateOf(
  source: CallSource,
  messages: readonly Message[],
  tools: readonly ToolDefinition[] | undefined,
  { agent, score, system }: TraceImportOptions,
): Candidate {
  const kept = system ? messages : messages.filter(({ role }) => role !== "system");
  const conversation = conversationOf(kept);
  return {
    ...conversation,
    agent: source.agent ?? agent,
    scope: source.scope,
    // The score of a later prompt's answer says nothing about the first.
    score: score && !conversation.isCut ? numberIn(source.score(score.name)) : undefined,
    tools,
    where: source.where,
  };
}

/** An attribute as text, such as an id of 64 bits. */
const plainText = (value: JsonValue): string => withoutMark(String(value));

function numberIn(value: JsonValue | undefined): number | undefined {
  if (typeof value !== "number" && typeof value !== "boolean" && typeof value !== "string") return;
  const written = plainText(value).trim();
  const number = written === "" ? Number.NaN : Number(typeof value === "string" ? written : value);
  return Number.isNaN(number) ? undefined : number;
}

function scopesOf(candidates: readonly Candidate[]): Candidate[][] {
  const scopes = new Map<string, Candidate[]>();
  for (const one of candidates) {
    const scope = scopes.get(one.scope) ?? [];
    scope.push(one);
    scopes.set(one.scope, scope);
  }
  return [...scopes.values()];
}

/**
 * The longest conversations of a scope, completed with the thinking that only their prefixes recorded. If a score is asked for, skips those
 * without one and those whose score is too low.
 */
function takeScored(scope: readonly Candidate[], { score }: TraceImportOptions, report: ImportReport): Candidate[] {
  return joinAndCount(scope, report).flatMap((joined) => {
    const { longest, contained } = joined;
    return report.attempt(longest.where, () => {
      const calls = [longest, ...contained];
      const found = calls.map((one) => one.score).find((value) => value !== undefined);
      const missing = calls.some(({ isCut }) => isCut) ? " of the answer to the first prompt" : "";
      if (score && found === undefined) throw new UnusableTraceError(`no ${score.name}${missing}`);
      if (score && Number(found) < score.min) throw new UnusableTraceError(`${score.name} is below ${score.min}`);
      return [{ ...longest, messages: withThinking(joined) }];
    });
  });
}

/** Joins conversations, and counts those that others contain. */
function joinAndCount(candidates: readonly Candidate[], report: ImportReport): Joined<Candidate>[] {
  const joined = joinConversations(candidates);
  report.contained += candidates.length - joined.length;
  return joined;
}

function write({ longest }: Joined<Candidate>, options: TraceImportOptions, report: ImportReport): object[] {
  const { messages, agent, tools, isCut, where } = longest;
  return report.attempt(where, () => {
    const own = tools && ownTools(tools);
    const agentName = options.as ?? agent;
    const line = demonstrationLine(messages, agentName, own);
    report.take(agentName, messages[0]?.role === "system" ? messages[0].text : undefined);
    if (isCut) report.cut++;
    report.providerTools += (tools?.length ?? 0) - (own?.length ?? 0);
    return [line];
  });
}
