/** @file `/v1/responses`: an agent's reply as a response of items, or as server-sent events. Replies are kept for later requests to refer to. */
import type { AppMessage, TurnReply } from "../../../core/contracts/app-chat.ts";
import { CREATED, tokenLogProbs } from "./chat-reply.ts";
import type { Dialect } from "./dialect.ts";
import { type ApiError, openAiError } from "./errors.ts";
import type { ServerEvent } from "./event-stream.ts";
import { readRequest } from "./read-request.ts";
import { type EarlierItem, RESPONSES_OVERRIDDEN, ResponsesRequest, readResponsesRequest } from "./responses-request.ts";

export const responses: Dialect<ResponsesRequest> = {
  path: "/responses",
  overridden: RESPONSES_OVERRIDDEN,
  read: (body) => readRequest(ResponsesRequest, body),
  turn(request, attempt) {
    const kept = keptOf(attempt);
    const { turn, conversation } = readResponsesRequest(request, {
      conversation: (response) => kept.conversations.get(response),
      item: (id) => kept.items.get(id),
    });
    return { turn, keep: (reply) => keep(kept, request, reply, conversation) };
  },
  reply: (turn, request) => responseOf(turn, request, outputOf(turn, request)),
  events: eventsOf,
  errorBody: openAiError,
  errorEvent,
};

/** For servers that keep nothing: a request has its whole conversation. */
export const statelessResponses: Dialect<ResponsesRequest> = {
  ...responses,
  turn: (request) => ({
    turn: readResponsesRequest(request, { conversation: () => undefined, item: () => undefined }).turn,
  }),
};

/** OpenAI's client throws the error of an event that has `error`; it passes on all other events, even those of type "error". */
function errorEvent(error: ApiError): ServerEvent {
  const { code, message, param } = error;
  const event = { type: "error", sequence_number: 0, code, message, param, ...openAiError(error) };
  return { name: event.type, data: JSON.stringify(event) };
}

/** What later requests of an attempt may refer to. It is kept until the attempt ends, whatever `store` says. */
interface Kept {
  readonly conversations: Map<string, readonly AppMessage[]>;
  readonly items: Map<string, EarlierItem>;
}
const keptByAttempt = new WeakMap<object, Kept>();

function keptOf(attempt: object): Kept {
  const kept = keptByAttempt.get(attempt) ?? { conversations: new Map(), items: new Map() };
  keptByAttempt.set(attempt, kept);
  return kept;
}

function keep(kept: Kept, request: ResponsesRequest, reply: TurnReply, conversation: readonly AppMessage[]): void {
  const message: AppMessage = { role: "assistant", text: reply.text, calls: reply.calls };
  kept.conversations.set(responseId(reply, request), [...conversation, message]);
  for (const item of outputOf(reply, request)) {
    if (item.type === "message") kept.items.set(item.id, { text: reply.text });
    else kept.items.set(item.id, item.type === "function_call" ? { call: item } : "thinking");
  }
}

/** Identical requests to two agents may have the same exchange id, so response ids contain the agent's name. */
const nameOf = ({ exchange }: TurnReply, { model }: Pick<ResponsesRequest, "model">) => `${model}_${exchange}`;
const responseId = (reply: TurnReply, request: ResponsesRequest) => `resp_${nameOf(reply, request)}`;

const LOG_PROBS = "message.output_text.logprobs";
const ENCRYPTED = "reasoning.encrypted_content";
/** Clients send thinking back only if it has encrypted content. This is a placeholder: the gateway ignores thinking that is sent back. */
const KEPT_HERE = { encrypted_content: "kept by the gateway" };

type Item = ReturnType<typeof outputOf>[number];

/** The reply's items: thinking, text, and calls. */
function outputOf(reply: TurnReply, request: ResponsesRequest) {
  const { text, thinking, calls, stopReason } = reply;
  const id = nameOf(reply, request);
  const status = stopReason === "length" ? "incomplete" : "completed";
  const logprobs = request.include?.includes(LOG_PROBS) ? logProbsOf(reply) : [];
  const content = [{ type: "output_text" as const, text, annotations: [], logprobs }];
  const summary = [{ type: "summary_text" as const, text: thinking }];
  const encrypted = request.include?.includes(ENCRYPTED) && KEPT_HERE;
  return [
    ...(thinking === "" ? [] : [{ type: "reasoning" as const, id: `rs_${id}`, summary, ...encrypted }]),
    ...(text === "" && calls.length > 0
      ? []
      : [{ type: "message" as const, id: `msg_${id}`, role: "assistant" as const, status, content }]),
    ...calls.map(({ id: call, name, arguments: written }, i) => ({
      type: "function_call" as const,
      id: `fc_${id}_${i}`,
      call_id: call,
      name,
      arguments: written,
      status,
    })),
  ];
}

/** Unlike in chat completions, bytes cannot be null: unknown ones are an empty list. */
const logProbsOf = (reply: TurnReply) => tokenLogProbs(reply).map((token) => ({ ...token, bytes: token.bytes ?? [] }));

function responseOf(reply: TurnReply, request: ResponsesRequest, output: readonly Item[]): object {
  const isCut = reply.stopReason === "length";
  const { inputTokens, outputTokens } = reply.usage;
  return {
    ...openingResponse(reply, request),
    status: isCut ? "incomplete" : "completed",
    incomplete_details: isCut ? { reason: "max_output_tokens" } : null,
    output,
    usage: {
      input_tokens: inputTokens,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: outputTokens,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: inputTokens + outputTokens,
    },
  };
}

/** The response before it has any items. */
function openingResponse(reply: TurnReply, request: ResponsesRequest) {
  const { model, instructions, previous_response_id: previous, max_output_tokens: maxTokens, tools, user } = request;
  return {
    id: responseId(reply, request),
    object: "response",
    created_at: CREATED,
    status: "in_progress",
    model,
    error: null,
    incomplete_details: null,
    output: [],
    usage: null,
    metadata: {},
    store: false,
    instructions: instructions ?? null,
    previous_response_id: previous ?? null,
    user: user ?? null,
    tools: tools ?? [],
    tool_choice: request.tool_choice ?? "auto",
    parallel_tool_calls: true,
    max_output_tokens: maxTokens ?? null,
    temperature: null,
    top_p: null,
    truncation: "disabled",
    reasoning: { effort: null, summary: null },
    text: { format: { type: "text" } },
  };
}

/** The whole turn is sampled before the first event: what a client reads is what is trained on. */
function eventsOf(reply: TurnReply, request: ResponsesRequest): ServerEvent[] {
  const output = outputOf(reply, request);
  const response = responseOf(reply, request, output);
  const events = [
    { type: "response.created", response: openingResponse(reply, request) },
    { type: "response.in_progress", response: openingResponse(reply, request) },
    ...output.flatMap((item, output_index) => itemEvents(item, { item_id: item.id, output_index })),
    { type: reply.stopReason === "length" ? "response.incomplete" : "response.completed", response },
  ];
  return events.map(({ type, ...rest }, sequence_number) => ({
    name: type,
    data: JSON.stringify({ type, sequence_number, ...rest }),
  }));
}

interface ItemPosition {
  readonly item_id: string;
  readonly output_index: number;
}

function itemEvents(item: Item, position: ItemPosition): { type: string }[] {
  const { output_index } = position;
  const wrap = (empty: object, inner: { type: string }[]) => [
    { type: "response.output_item.added", output_index, item: { ...item, ...empty } },
    ...inner,
    { type: "response.output_item.done", output_index, item },
  ];
  if (item.type === "message") return wrap({ status: "in_progress", content: [] }, textEvents(item, position));
  if (item.type === "reasoning") return wrap({ summary: [] }, thinkingEvents(item, position));
  const { name, arguments: written } = item;
  return wrap({ status: "in_progress", arguments: "" }, [
    { type: "response.function_call_arguments.delta", ...position, delta: written } as { type: string },
    { type: "response.function_call_arguments.done", ...position, name, arguments: written } as { type: string },
  ]);
}

function textEvents({ content }: Extract<Item, { type: "message" }>, position: ItemPosition): { type: string }[] {
  return content.flatMap((part, content_index) => {
    const at = { ...position, content_index };
    const { text, logprobs } = part;
    return [
      { type: "response.content_part.added", ...at, part: { ...part, text: "", logprobs: [] } },
      ...(text === "" ? [] : [{ type: "response.output_text.delta", ...at, delta: text, logprobs }]),
      { type: "response.output_text.done", ...at, text, logprobs },
      { type: "response.content_part.done", ...at, part },
    ];
  });
}

function thinkingEvents({ summary }: Extract<Item, { type: "reasoning" }>, position: ItemPosition): { type: string }[] {
  return summary.flatMap((part, summary_index) => {
    const at = { ...position, summary_index };
    return [
      { type: "response.reasoning_summary_part.added", ...at, part: { ...part, text: "" } },
      { type: "response.reasoning_summary_text.delta", ...at, delta: part.text },
      { type: "response.reasoning_summary_text.done", ...at, text: part.text },
      { type: "response.reasoning_summary_part.done", ...at, part },
    ];
  });
}
