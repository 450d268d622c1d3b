/** @file `/v1/chat/completions`: an agent's reply as one JSON object, or as server-sent events. */
import type { TurnReply } from "../../../core/contracts/app-chat.ts";
import { CHAT_OVERRIDDEN, type ChatCompletionRequest, readChatRequest, turnRequestOfChat } from "./chat-request.ts";
import type { Dialect } from "./dialect.ts";
import { openAiError } from "./errors.ts";

export const chatCompletions: Dialect<ChatCompletionRequest> = {
  path: "/chat/completions",
  overridden: CHAT_OVERRIDDEN,
  read: readChatRequest,
  turn: (request) => ({ turn: turnRequestOfChat(request) }),
  reply: completionOf,
  events: (turn, request) => [
    ...chunksOf(turn, request).map((chunk) => ({ data: JSON.stringify(chunk) })),
    { data: "[DONE]" },
  ],
  errorBody: openAiError,
  errorEvent: (error) => ({ data: JSON.stringify(openAiError(error)) }),
};

const FINISH = { stop: "stop", length: "length", calls: "tool_calls" } as const;

/** The time at which every reply says that it was created: equal rollouts get byte-identical replies. */
export const CREATED = 0;

function completionOf(reply: TurnReply, { model, logprobs }: ChatCompletionRequest): object {
  const message = {
    role: "assistant",
    content: contentOf(reply),
    refusal: null,
    ...(reply.thinking !== "" && { reasoning_content: reply.thinking }),
    ...(reply.calls.length > 0 && { tool_calls: reply.calls.map(callOf) }),
  };
  const choice = {
    index: 0,
    message,
    logprobs: logprobs ? logProbsOf(reply) : null,
    finish_reason: FINISH[reply.stopReason],
  };
  return { ...envelope(reply, model, "chat.completion"), choices: [choice], usage: usageOf(reply) };
}

/** The chunks of a stream. The whole turn is sampled before the first chunk is sent: what a client reads is what is trained on. */
function chunksOf(reply: TurnReply, request: ChatCompletionRequest): object[] {
  const { model, logprobs, stream_options: options } = request;
  const head = envelope(reply, model, "chat.completion.chunk");
  const chunk = (delta: object, finish: string | null = null, more: object = {}) => ({
    ...head,
    choices: [{ index: 0, delta, finish_reason: finish, ...more }],
  });
  const content = contentOf(reply);
  // A single chunk has all log-probs: the text's, or the finish reason's if the turn has no text.
  const sampled = logprobs ? { logprobs: logProbsOf(reply) } : {};
  return [
    chunk({ role: "assistant", content: content === null ? null : "" }),
    ...(reply.thinking === "" ? [] : [chunk({ reasoning_content: reply.thinking })]),
    ...(content ? [chunk({ content }, null, sampled)] : []),
    ...reply.calls.map((call, index) => chunk({ tool_calls: [{ index, ...callOf(call) }] })),
    chunk({}, FINISH[reply.stopReason], content ? {} : sampled),
    ...(options?.include_usage ? [{ ...head, choices: [], usage: usageOf(reply) }] : []),
  ];
}

const envelope = ({ exchange }: TurnReply, model: string, object: string) => ({
  id: `chatcmpl-${exchange}`,
  object,
  created: CREATED,
  model,
});

/** Null if the turn has calls and no text. */
const contentOf = ({ text, calls }: TurnReply) => (text === "" && calls.length > 0 ? null : text);

const callOf = ({ id, name, arguments: written }: TurnReply["calls"][number]) => ({
  id,
  type: "function",
  function: { name, arguments: written },
});

const usageOf = ({ usage: { inputTokens, outputTokens } }: TurnReply) => ({
  prompt_tokens: inputTokens,
  completion_tokens: outputTokens,
  total_tokens: inputTokens + outputTokens,
});

const logProbsOf = (reply: TurnReply) => ({ content: tokenLogProbs(reply), refusal: null });

/** A token that holds only part of a character decodes to U+FFFD, from which its bytes cannot be recovered: they are null. */
export const tokenLogProbs = ({ tokens }: TurnReply) =>
  tokens.map(({ text, logProb }) => ({
    token: text,
    logprob: logProb,
    bytes: text.includes("\uFFFD") ? null : [...new TextEncoder().encode(text)],
    top_logprobs: [],
  }));
