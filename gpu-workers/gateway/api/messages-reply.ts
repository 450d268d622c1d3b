/** @file Anthropic's `/v1/messages`: an agent's reply as a message of content blocks, or as server-sent events; also errors. */
import type { TurnReply } from "../../../core/contracts/app-chat.ts";
import type { Dialect } from "./dialect.ts";
import type { ApiError } from "./errors.ts";
import type { ServerEvent } from "./event-stream.ts";
import { MESSAGES_OVERRIDDEN, MessagesRequest, turnRequestOfMessages } from "./messages-request.ts";
import { readRequest } from "./read-request.ts";

export const messages: Dialect<MessagesRequest> = {
  path: "/messages",
  overridden: MESSAGES_OVERRIDDEN,
  read: (body) => readRequest(MessagesRequest, body),
  turn: (request) => ({ turn: turnRequestOfMessages(request) }),
  reply: messageOf,
  events: eventsOf,
  errorBody,
  errorEvent: (error) => eventOf(errorBody(error)),
};

const ERROR_TYPES: Partial<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  404: "not_found_error",
  413: "request_too_large",
};

/** `code` is our extension: Anthropic's clients read the type and the message. */
function errorBody({ status, code, message }: ApiError) {
  // Clients recognize this error by its message.
  const shown = code === "context_length_exceeded" ? `prompt is too long: ${message}` : message;
  return { type: "error", error: { type: ERROR_TYPES[status] ?? "api_error", message: shown, code } };
}

function messageOf(reply: TurnReply, { model }: MessagesRequest) {
  const { usage } = reply;
  return {
    id: `msg_${reply.exchange}`,
    type: "message",
    role: "assistant",
    model,
    content: contentOf(reply),
    ...endOf(reply),
    usage: {
      input_tokens: usage.inputTokens,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 0,
      output_tokens: usage.outputTokens,
    },
  };
}

function endOf({ stopReason, stoppedBy }: TurnReply): { stop_reason: string; stop_sequence: string | null } {
  if (stopReason === "calls") return { stop_reason: "tool_use", stop_sequence: null };
  if (stopReason === "length") return { stop_reason: "max_tokens", stop_sequence: null };
  if (stoppedBy === undefined) return { stop_reason: "end_turn", stop_sequence: null };
  return { stop_reason: "stop_sequence", stop_sequence: stoppedBy };
}

type Block =
  | { type: "thinking"; thinking: string; signature: string }
  | { type: "text"; text: string }
  | { type: "tool_use"; id: string; name: string; input: unknown };

function contentOf({ text, thinking, calls }: TurnReply): Block[] {
  return [
    ...(thinking === "" ? [] : [{ type: "thinking" as const, thinking, signature: "" }]),
    ...(text === "" ? [] : [{ type: "text" as const, text }]),
    ...calls.map(({ id, name, arguments: written }) => ({
      type: "tool_use" as const,
      id,
      name,
      input: JSON.parse(written),
    })),
  ];
}

/** The turn is sampled completely first, and its events are made from the reply that is recorded for training. */
function eventsOf(reply: TurnReply, request: MessagesRequest): ServerEvent[] {
  const message = messageOf(reply, request);
  const opening = {
    ...message,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { ...message.usage, output_tokens: 0 },
  };
  return [
    { type: "message_start", message: opening },
    ...message.content.flatMap((block, index) => blockEvents(block, reply).map((event) => ({ ...event, index }))),
    { type: "message_delta", delta: endOf(reply), usage: { output_tokens: reply.usage.outputTokens } },
    { type: "message_stop" },
  ].map(eventOf);
}

function blockEvents(block: Block, reply: TurnReply): { type: string }[] {
  const { empty, delta } = partsOf(block, reply);
  return [
    { type: "content_block_start", content_block: empty } as { type: string },
    { type: "content_block_delta", delta } as { type: string },
    { type: "content_block_stop" },
  ];
}

function partsOf(block: Block, { calls }: TurnReply): { empty: Block; delta: object } {
  if (block.type === "text") return { empty: { ...block, text: "" }, delta: { type: "text_delta", text: block.text } };
  if (block.type === "thinking") {
    return { empty: { ...block, thinking: "" }, delta: { type: "thinking_delta", thinking: block.thinking } };
  }
  // As sampled: `input` is parsed, which rounds a large integer.
  const written = calls.find(({ id }) => id === block.id)?.arguments;
  const delta = { type: "input_json_delta", partial_json: written };
  return { empty: { ...block, input: {} }, delta };
}

/** Events are named by their type. */
const eventOf = (event: { readonly type: string }): ServerEvent => ({ name: event.type, data: JSON.stringify(event) });
