/** @file A request to Anthropic's `/v1/messages` -> a turn of an agent. */
import * as z from "zod";
import type { AppMessage, AppToolCall, TurnRequest } from "../../../core/contracts/app-chat.ts";
import { FORMAT_REFUSED, PREFILL_REFUSED, variantOf } from "./chat-request.ts";
import { type Content, textOf } from "./content.ts";
import { unsupported } from "./errors.ts";
import { callOf, History } from "./history.ts";
import { ignored, readPart } from "./read-request.ts";
import { requireOfferedTool } from "./tools.ts";

const OVERRIDDEN_TOP_LEVEL = ["temperature", "top_p", "top_k", "thinking"];
export const MESSAGES_OVERRIDDEN = [
  ...OVERRIDDEN_TOP_LEVEL,
  ...["output_config.effort", "messages.*.content.*.is_error", "tools.*.strict"],
];

/** A content block. `type` says which other fields it has. */
const Block = z.looseObject({ type: z.string(), text: z.string().optional() });
const MessageContent = z.union([z.string(), z.array(Block)]);

const Text = z.looseObject({ type: z.literal("text"), text: z.string() });
const ToolUse = z.looseObject({
  id: z.string().min(1),
  name: z.string().min(1),
  input: z.record(z.string(), z.json()),
});
const ToolResult = z.looseObject({ tool_use_id: z.string(), content: MessageContent.nullish() });

const AnthropicTool = z.looseObject({
  type: z.string().nullish(),
  name: z.string(),
  description: z.string().nullish(),
  input_schema: z.record(z.string(), z.json()).optional(),
});

export const MessagesRequest = z.strictObject({
  model: z.string(),
  messages: z.array(z.strictObject({ role: z.enum(["user", "assistant"]), content: MessageContent })).min(1),
  system: z.union([z.string(), z.array(Text)]).nullish(),
  max_tokens: z.int().positive().nullish(),
  stop_sequences: z.array(z.string().min(1)).max(16).nullish(),
  stream: z.boolean().nullish(),
  tools: z.array(AnthropicTool).nullish(),
  tool_choice: z.looseObject({ type: z.string(), disable_parallel_tool_use: z.boolean().nullish() }).nullish(),
  metadata: z.looseObject({ user_id: z.string().max(500).nullish() }).nullish(),
  output_config: z.strictObject({ format: z.unknown().optional(), effort: z.unknown().optional() }).nullish(),
  ...ignored([...OVERRIDDEN_TOP_LEVEL, "service_tier", "cache_control"]),
});
export type MessagesRequest = z.infer<typeof MessagesRequest>;

export function turnRequestOfMessages(request: MessagesRequest): TurnRequest {
  const { messages, tools, tool_choice: choice, max_tokens: maxTokens, stop_sequences: stop } = request;
  refuseForced(choice);
  if (request.output_config?.format != null)
    throw unsupported("output_config.format", `output_config: ${FORMAT_REFUSED}`);
  if (messages.at(-1)?.role === "assistant") {
    throw unsupported("messages", `messages: the last one is the assistant's, and ${PREFILL_REFUSED}`);
  }
  return {
    messages: historyOf(request),
    tools: (tools ?? []).map(({ type, name, description, input_schema: parameters }, i) => {
      if (type == null || type === "custom")
        return requireOfferedTool({ name, description, parameters }, `tools.${i}.name`);
      throw unsupported(
        `tools.${i}.type`,
        `tools.${i}: a tool of type '${type}' is not supported: only the app's own tools are offered`,
      );
    }),
    mayCall: choice?.type !== "none",
    ...(maxTokens && { maxTokens }),
    stopStrings: stop ?? [],
    variant: variantOf(null, request.metadata?.user_id),
  };
}

function refuseForced(choice: MessagesRequest["tool_choice"]): void {
  if (choice && choice.type !== "auto" && choice.type !== "none") {
    throw unsupported(
      "tool_choice.type",
      'tool_choice.type must be "auto" or "none": a forced call is not sampled from the policy',
    );
  }
  if (choice?.disable_parallel_tool_use) {
    const message =
      "tool_choice.disable_parallel_tool_use: the policy decides how many calls a turn makes: leave it out";
    throw unsupported("tool_choice.disable_parallel_tool_use", message);
  }
}

function historyOf({ system, messages }: MessagesRequest): AppMessage[] {
  const history = new History();
  const instructions = system ? textOf(system, "system", "\n") : "";
  if (instructions !== "") history.add("system", instructions);
  for (const [i, { role, content }] of messages.entries()) {
    const blocks = typeof content === "string" ? [{ type: "text", text: content }] : content;
    if (role === "assistant") addReply(history, blocks, i);
    else addUser(history, blocks, i);
  }
  return history.messages();
}

type Blocks = Exclude<Content, string>;

/** Thinking is left out: the tokens that the agent sampled contain it. */
function addReply(history: History, blocks: Blocks, i: number): void {
  const calls: AppToolCall[] = [];
  const texts: Blocks = [];
  for (const [j, block] of blocks.entries()) {
    if (block.type === "tool_use") {
      const { id, name, input } = readPart(ToolUse, block, "messages", i, "content", j);
      calls.push(callOf(id, name, JSON.stringify(input)));
    } else if (!block.type.endsWith("thinking")) {
      texts.push(block);
    }
  }
  history.assistant(textOf(texts, `messages.${i}.content`), calls);
}

/** Responses to calls come before the text. */
function addUser(history: History, blocks: Blocks, i: number): void {
  const texts: Blocks = [];
  for (const [j, block] of blocks.entries()) {
    if (block.type !== "tool_result") {
      texts.push(block);
      continue;
    }
    const where = `messages.${i}.content.${j}`;
    const { tool_use_id: id, content } = readPart(ToolResult, block, "messages", i, "content", j);
    history.respond(id, textOf(content ?? "", `${where}.content`, "\n"), `${where}.tool_use_id`);
  }
  if (texts.length > 0 || blocks.length === 0) history.add("user", textOf(texts, `messages.${i}.content`, "\n"));
}
