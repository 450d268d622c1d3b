/** @file A request to `/v1/chat/completions` -> a turn of an agent. */
import * as z from "zod";
import type { AppMessage, TurnRequest } from "../../../core/contracts/app-chat.ts";
import { memberText } from "../../../core/conversation/json-text.ts";
import { Content, textOf } from "./content.ts";
import { unsupported } from "./errors.ts";
import { callOf, History } from "./history.ts";
import { ignored, OPENAI_SERVICE, readRequest } from "./read-request.ts";
import { refuseForcedCalls, requireOfferedTool } from "./tools.ts";

const FunctionToolCall = z.looseObject({
  id: z.string().min(1),
  type: z.literal("function").optional(),
  function: z.looseObject({ name: z.string().min(1), arguments: z.string() }),
});

const RequestMessage = z.discriminatedUnion("role", [
  z.looseObject({ role: z.literal("system"), content: Content }),
  z.looseObject({ role: z.literal("developer"), content: Content }),
  z.looseObject({ role: z.literal("user"), content: Content }),
  z.looseObject({
    role: z.literal("assistant"),
    content: Content.nullish(),
    tool_calls: z.array(FunctionToolCall).nullish(),
    function_call: z.unknown().optional(),
    prefix: z.unknown().optional(),
    partial: z.unknown().optional(),
  }),
  z.looseObject({ role: z.literal("tool"), tool_call_id: z.string(), content: Content }),
]);
type RequestMessage = z.infer<typeof RequestMessage>;

const OfferedFunction = z.looseObject({
  type: z.literal("function"),
  function: z.looseObject({
    name: z.string(),
    description: z.string().nullish(),
    parameters: z.record(z.string(), z.json()).nullish(),
  }),
});

/** The second line: sampling settings of other OpenAI-compatible servers, such as vLLM. */
const OVERRIDDEN_TOP_LEVEL = [
  ...["temperature", "top_p", "frequency_penalty", "presence_penalty"],
  ...["top_k", "min_p", "repetition_penalty"],
  ...["reasoning_effort", "verbosity"],
];
export const CHAT_OVERRIDDEN = [...OVERRIDDEN_TOP_LEVEL, "messages.*.name", "tools.*.function.strict"];

/** OpenAI's seeds have 64 bits. */
const isSeed = (seed: number): boolean => Number.isInteger(seed) && Math.abs(seed) <= 2 ** 63;

export const ChatCompletionRequest = z.strictObject({
  model: z.string(),
  messages: z.array(RequestMessage).min(1),
  tools: z.array(OfferedFunction).nullish(),
  tool_choice: z.union([z.string(), z.looseObject({ type: z.string() })]).nullish(),
  max_tokens: z.int().positive().nullish(),
  max_completion_tokens: z.int().positive().nullish(),
  stop: z.union([z.string().min(1), z.array(z.string().min(1)).max(4)]).nullish(),
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().optional() }).nullish(),
  logprobs: z.boolean().nullish(),
  top_logprobs: z.int().nullish(),
  n: z.int().nullish(),
  seed: z.number().refine(isSeed, "expected an integer of 64 bits").nullish(),
  user: z.string().max(500).nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  response_format: z.looseObject({ type: z.string() }).nullish(),
  ...ignored([...OVERRIDDEN_TOP_LEVEL, ...OPENAI_SERVICE]),
});
/** A seed that a number would round is kept as text. */
export type ChatCompletionRequest = Omit<z.infer<typeof ChatCompletionRequest>, "seed"> & { readonly seed?: Seed };
type Seed = number | string | null | undefined;

export function readChatRequest(body: string): ChatCompletionRequest {
  const request = readRequest(ChatCompletionRequest, body);
  if (request.seed == null || Number.isSafeInteger(request.seed)) return request;
  return { ...request, seed: memberText(body, "seed") };
}

export function turnRequestOfChat(request: ChatCompletionRequest): TurnRequest {
  refuseUnsupported(request);
  const { messages, tools, tool_choice: choice, stop, seed, user } = request;
  const maxTokens = request.max_completion_tokens ?? request.max_tokens;
  return {
    messages: historyOf(messages),
    tools: (tools ?? []).map((tool, i) => requireOfferedTool(tool.function, `tools.${i}.function.name`)),
    mayCall: choice !== "none",
    ...(maxTokens && { maxTokens }),
    stopStrings: typeof stop === "string" ? [stop] : (stop ?? []),
    variant: variantOf(seed, user),
  };
}

/** Distinguishes requests that are otherwise equal. */
export const variantOf = (seed: Seed, user: string | null | undefined): string =>
  seed == null && user == null ? "" : JSON.stringify([seed ?? null, user ?? null]);

function refuseUnsupported(request: ChatCompletionRequest): void {
  const { n, response_format: format, top_logprobs: top } = request;
  if (n != null && n !== 1) throw unsupported("n", "one choice is sampled per request: leave n out");
  refuseForcedCalls(request.tool_choice, request.parallel_tool_calls);
  if (format != null && format.type !== "text") throw unsupported("response_format", FORMAT_REFUSED);
  if (top) throw unsupported("top_logprobs", TOP_LOGPROBS_REFUSED);
}

export const FORMAT_REFUSED =
  "the reply is what the policy samples, and its format cannot be forced: leave the setting out, ask for the format in the prompt, and check the reply";
export const TOP_LOGPROBS_REFUSED = "only the log-probs of sampled tokens are known: leave top_logprobs out";

/** Refuses what other servers would show the model or continue. If it were silently dropped, the agent would be trained on another conversation. */
function refuseUnreadable(message: Extract<RequestMessage, { role: "assistant" }>, where: string): void {
  if (message.function_call != null)
    throw unsupported(`${where}.function_call`, `${where}.function_call: write the call in tool_calls`);
  for (const name of ["prefix", "partial"] as const) {
    if (message[name] !== true) continue;
    throw unsupported(`${where}.${name}`, `${where}.${name}: ${PREFILL_REFUSED}`);
  }
}

export const PREFILL_REFUSED = "a reply that begins with the app's text would not be the policy's own: leave it out";

function historyOf(messages: readonly RequestMessage[]): AppMessage[] {
  const history = new History();
  for (const [i, message] of messages.entries()) {
    const text = textOf(message.content ?? "", `messages.${i}.content`);
    if (message.role === "tool") {
      history.respond(message.tool_call_id, text, `messages.${i}.tool_call_id`);
    } else if (message.role === "assistant") {
      refuseUnreadable(message, `messages.${i}`);
      const calls = (message.tool_calls ?? []).map(({ id, function: { name, arguments: written } }) =>
        callOf(id, name, written),
      );
      history.assistant(text, calls);
    } else {
      history.add(message.role === "user" ? "user" : "system", text);
    }
  }
  return history.messages();
}
