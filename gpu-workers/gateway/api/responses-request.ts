/** @file A request to `/v1/responses` -> a turn of an agent. */
import * as z from "zod";
import type { AppMessage, TurnRequest } from "../../../core/contracts/app-chat.ts";
import { FORMAT_REFUSED, TOP_LOGPROBS_REFUSED, variantOf } from "./chat-request.ts";
import { Content, textOf } from "./content.ts";
import { ApiError, invalid, unsupported } from "./errors.ts";
import { callOf, History } from "./history.ts";
import { ignored, OPENAI_SERVICE, readPart } from "./read-request.ts";
import { refuseForcedCalls, requireOfferedTool } from "./tools.ts";

const OVERRIDDEN_TOP_LEVEL = ["temperature", "top_p", "reasoning"];
export const RESPONSES_OVERRIDDEN = [...OVERRIDDEN_TOP_LEVEL, "text.verbosity", "tools.*.strict"];

/** Messages and references may lack the type. */
const Item = z.looseObject({ type: z.string().nullish(), role: z.string().optional(), id: z.string().nullish() });

const InputMessage = z.looseObject({ role: z.enum(["system", "developer", "user", "assistant"]), content: Content });
const FunctionCall = z.looseObject({ call_id: z.string().min(1), name: z.string().min(1), arguments: z.string() });
const FunctionCallOutput = z.looseObject({ call_id: z.string(), output: Content });
const Reference = z.looseObject({ id: z.string() });

const OfferedFunction = z.looseObject({
  type: z.string(),
  name: z.string().optional(),
  description: z.string().nullish(),
  parameters: z.record(z.string(), z.json()).nullish(),
});

export const ResponsesRequest = z.strictObject({
  model: z.string(),
  input: z.union([z.string(), z.array(Item)]),
  instructions: z.string().nullish(),
  previous_response_id: z.string().nullish(),
  tools: z.array(OfferedFunction).nullish(),
  tool_choice: z.union([z.string(), z.looseObject({ type: z.string() })]).nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  max_output_tokens: z.int().positive().nullish(),
  stream: z.boolean().nullish(),
  include: z.array(z.string()).nullish(),
  top_logprobs: z.int().nullish(),
  text: z.looseObject({ format: z.looseObject({ type: z.string() }).nullish() }).nullish(),
  user: z.string().max(500).nullish(),
  truncation: z.string().nullish(),
  background: z.boolean().nullish(),
  ...ignored([...OVERRIDDEN_TOP_LEVEL, ...OPENAI_SERVICE, "max_tool_calls", "stream_options"]),
});
export type ResponsesRequest = z.infer<typeof ResponsesRequest>;

/** Earlier responses that are kept: a request may refer to them instead of repeating them. */
export interface EarlierResponses {
  /** The messages that led to a response, without its instructions, and the response. */
  conversation(response: string): readonly AppMessage[] | undefined;
  /** One item of a response: a message's text, a call, or thinking. A reference to thinking adds nothing: the sampled tokens contain it. */
  item(id: string): EarlierItem | undefined;
}
export type EarlierItem = { readonly text: string } | { readonly call: z.infer<typeof FunctionCall> } | "thinking";

/** @returns `conversation`: the messages without the instructions, which a following request does not inherit. */
export function readResponsesRequest(
  request: ResponsesRequest,
  earlier: EarlierResponses,
): { turn: TurnRequest; conversation: AppMessage[] } {
  refuseUnsupported(request);
  const { instructions, tools, tool_choice: choice, max_output_tokens: maxTokens, user } = request;
  const conversation = conversationOf(request, earlier);
  const system: AppMessage[] = instructions ? [{ role: "system", text: instructions }] : [];
  const turn: TurnRequest = {
    messages: [...system, ...conversation],
    tools: (tools ?? []).map(({ type, name = "", ...tool }, i) => {
      if (type === "function") return requireOfferedTool({ name, ...tool }, `tools.${i}.name`);
      throw unsupported(
        `tools.${i}.type`,
        `tools.${i}: a tool of type '${type}' is not supported: only functions are offered to these agents`,
      );
    }),
    mayCall: choice !== "none",
    ...(maxTokens && { maxTokens }),
    stopStrings: [],
    variant: variantOf(null, user),
  };
  if (turn.messages.length === 0) throw new ApiError(400, "invalid_value", "input: it is empty", "input");
  return { turn, conversation };
}

function refuseUnsupported(request: ResponsesRequest): void {
  const { text, truncation, background, top_logprobs: top } = request;
  refuseForcedCalls(request.tool_choice, request.parallel_tool_calls);
  if (text?.format && text.format.type !== "text") throw unsupported("text.format", FORMAT_REFUSED);
  if (top) throw unsupported("top_logprobs", TOP_LOGPROBS_REFUSED);
  if (background) throw unsupported("background", "no response is created in the background: leave background out");
  if (truncation != null && truncation !== "disabled") {
    throw unsupported(
      "truncation",
      "a conversation is never truncated: leave truncation out, and shorten the conversation in the app if it is too long",
    );
  }
}

function conversationOf({ input, previous_response_id: previous }: ResponsesRequest, earlier: EarlierResponses) {
  const before = previous ? earlier.conversation(previous) : [];
  if (!before) {
    const message = `previous_response_id: no response '${previous}' is kept here: send the whole conversation as input`;
    throw new ApiError(400, "previous_response_not_found", message, "previous_response_id");
  }
  const history = new History(before);
  if (typeof input === "string") history.add("user", input);
  else for (const [i, item] of input.entries()) addItem(history, item, i, earlier);
  return history.messages();
}

function typeOf({ type, role, id }: z.infer<typeof Item>, where: string): string {
  if (type != null) return type;
  if (role !== undefined) return "message";
  if (id != null) return "item_reference";
  throw invalid(where, "it has no type, and neither the role of a message nor the id of a reference");
}

function addItem(history: History, item: z.infer<typeof Item>, i: number, earlier: EarlierResponses): void {
  const where = `input.${i}`;
  const type = typeOf(item, where);
  if (type === "message") {
    const { role, content } = readPart(InputMessage, item, "input", i);
    const text = textOf(content, `${where}.content`);
    if (role === "assistant") history.assistant(text, []);
    else history.add(role === "user" ? "user" : "system", text);
  } else if (type === "function_call") {
    addCall(history, readPart(FunctionCall, item, "input", i));
  } else if (type === "function_call_output") {
    const { call_id: id, output } = readPart(FunctionCallOutput, item, "input", i);
    history.respond(id, textOf(output, `${where}.output`), `${where}.call_id`);
  } else if (type === "item_reference") {
    const { id } = readPart(Reference, item, "input", i);
    const found = earlier.item(id);
    if (found === undefined) throw invalid(`${where}.id`, `no item '${id}' is kept here: send the item itself`);
    if (found !== "thinking" && "call" in found) addCall(history, found.call);
    else if (found !== "thinking") history.assistant(found.text, []);
  } else if (type !== "reasoning") {
    throw unsupported(
      `${where}.type`,
      `${where}: an item of type '${type}' is not supported: these agents read messages and calls`,
    );
  }
}

const addCall = (history: History, { call_id: id, name, arguments: written }: z.infer<typeof FunctionCall>) =>
  history.call(callOf(id, name, written));
