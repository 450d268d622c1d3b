/** @file The ChatModel port on an OpenAI-compatible server or Amazon Bedrock, through the AI SDK. */
import { randomUUID } from "node:crypto";
import type {
  JSONSchema7,
  LanguageModelV3CallOptions,
  LanguageModelV3Content,
  LanguageModelV3FunctionTool,
  LanguageModelV3Message,
} from "@ai-sdk/provider";
import * as z from "zod";
import { LanguageModelSpec, type LanguageModelSpecInput } from "../../core/contracts/language-model.ts";
import { parse } from "../../core/contracts/parse.ts";
import type { ApiToolCall, AssistantTurn, ChatModel, ChatPart, ChatRequest } from "../../core/language-model-ports.ts";
import type { ToolSchema } from "../../core/ports.ts";
import { type GeneratedReply, requestCompletion } from "./ask.ts";
import { EndpointFailure } from "./errors.ts";
import type { OpenModelOptions } from "./open.ts";
import { openEndpoint } from "./provider.ts";

/** Opens a model for conversations with native tool calls, as `openLanguageModel` does for single completions. */
export function openConversationModel(spec: LanguageModelSpecInput, options: OpenModelOptions = {}): ChatModel {
  const settings = parse(LanguageModelSpec, spec, "language model", "config-invalid");
  const endpoint = openEndpoint(settings, options.environment ?? process.env);
  return {
    async generate(request, signal) {
      try {
        const { onUnknownUsage } = request;
        const retryPolicy = { ...settings, ...options, ...(onUnknownUsage && { onUnknownUsage }) };
        return turnOf(await requestCompletion(endpoint, callOptions(request), retryPolicy, signal));
      } catch (error) {
        if (!(error instanceof EndpointFailure)) throw error;
        const { contentRefusal, answerFault, usage = { inputTokens: 0, outputTokens: 0 } } = error;
        if (contentRefusal === undefined && answerFault === undefined) throw error;
        // Only this conversation fails, with an empty turn. The usage of an answer that a filter withheld still counts, if it is known.
        const stop = contentRefusal === "too-long" || answerFault === "unfinished" ? "length" : "stop";
        return { thinking: "", text: "", calls: [], stop, usage };
      }
    },
  };
}

function callOptions({ conversation, tools, sampling, maxTokens }: ChatRequest): LanguageModelV3CallOptions {
  const { temperature, topP, topK } = sampling;
  return {
    prompt: conversation.map(messageOf),
    ...(tools.length > 0 && { tools: tools.map(toolOf) }),
    temperature,
    ...(topP < 1 && { topP }),
    ...(topK > 0 && { topK }),
    maxOutputTokens: maxTokens,
  };
}

/**
 * DeepSeek and Kimi reject a history whose calls lack `reasoning_content`, the reasoning that led to them. Servers that name it `reasoning`,
 * such as Groq and Cerebras, reject a history with `reasoning_content`.
 */
const ReturnsReasoning = z.object({
  choices: z.array(z.object({ message: z.object({ reasoning_content: z.string() }) })),
});

function turnOf({ content, stop, usage, body }: GeneratedReply): AssistantTurn {
  return {
    thinking: textOf(content, "reasoning"),
    text: textOf(content, "text"),
    calls: withDistinctIds(content.flatMap((part) => (part.type === "tool-call" ? [callOf(part)] : []))),
    stop,
    usage,
    ...(ReturnsReasoning.safeParse(body).success && { resendsThinking: true }),
  };
}

/**
 * Some servers give several calls of a turn the same id, or none, but refuse a turn in which ids repeat. A new id has 9 letters and digits,
 * the form that Mistral requires.
 */
function withDistinctIds(calls: readonly ApiToolCall[]): ApiToolCall[] {
  const known = new Set([""]);
  return calls.map((call) => {
    const id = known.has(call.id) ? randomUUID().replaceAll("-", "").slice(0, 9) : call.id;
    known.add(id);
    return { ...call, id };
  });
}

function textOf(content: readonly LanguageModelV3Content[], type: "text" | "reasoning"): string {
  return content.flatMap((part) => (part.type === type ? [part.text] : [])).join("");
}

/** Gemini signs its tool calls, and rejects a history without the signatures. */
function callOf(part: Extract<LanguageModelV3Content, { type: "tool-call" }>): ApiToolCall {
  const signature = Object.values(part.providerMetadata ?? {}).find((one) => one["thoughtSignature"])?.[
    "thoughtSignature"
  ];
  return {
    id: part.toolCallId,
    name: part.toolName,
    arguments: part.input,
    ...(typeof signature === "string" && { signature }),
  };
}

function messageOf(part: ChatPart): LanguageModelV3Message {
  if (part.kind === "results") {
    const content = part.results.map(({ call: { id, name }, text }) => ({
      type: "tool-result" as const,
      toolCallId: id,
      toolName: name,
      output: { type: "text" as const, value: text },
    }));
    return { role: "tool", content };
  }
  if (part.kind === "message") {
    if (part.role === "system") return { role: "system", content: part.text };
    return { role: "user", content: [{ type: "text", text: part.text }] };
  }
  const { thinking, text, calls, resendsThinking = false } = part.turn;
  const thoughts = resendsThinking && calls.length > 0 ? [{ type: "reasoning" as const, text: thinking }] : [];
  // Anthropic's API refuses a text that is blank.
  const words = text.trim() === "" && calls.length > 0 ? [] : [{ type: "text" as const, text }];
  return { role: "assistant", content: [...thoughts, ...words, ...calls.map(callPartOf)] };
}

/** The arguments of an answered call are valid JSON, or blank, which stands for `{}`. */
function callPartOf({ id, name, arguments: written, signature }: ApiToolCall) {
  return {
    type: "tool-call" as const,
    toolCallId: id,
    toolName: name,
    input: JSON.parse(written.trim() || "{}") as unknown,
    ...(signature !== undefined && { providerOptions: { google: { thoughtSignature: signature } } }),
  };
}

function toolOf({ function: { name, description, parameters } }: ToolSchema): LanguageModelV3FunctionTool {
  return { type: "function", name, description, inputSchema: parameters as JSONSchema7 };
}
