/**
 * @file The ports to language models behind an API. Outages (429, 5xx, time-outs, after retries) are MgrpoError `endpoint-unavailable`,
 * retryable; what another try cannot mend (401, 402, 404, an answer that is not of the schema) is `endpoint-refused`, whose evidence has
 * the `usage` of an answer that came all the same.
 */
import type { z } from "zod";
import type { Sampling } from "./contracts/rollout.ts";
import type { ChatMessage, ToolSchema } from "./ports.ts";

/** As the server counted them. */
export interface TokenUsage {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

export interface CompletionRequest {
  readonly messages: readonly ChatMessage[];
  /** The answer is to be JSON that this parses: asked for as the server can, and checked in any case. */
  readonly schema?: z.ZodType;
  readonly temperature?: number;
  readonly maxTokens?: number;
}

export interface Completion {
  /** With a schema: the JSON alone. */
  readonly text: string;
  readonly usage: TokenUsage;
}

/** A model that is asked one thing at a time: judges, `reason`, extraction. */
export interface LanguageModel {
  complete(request: CompletionRequest, signal?: AbortSignal): Promise<Completion>;
}

/** A call as the API has it. */
export interface ApiToolCall {
  readonly id: string;
  readonly name: string;
  /** JSON as the model wrote it, so perhaps none. */
  readonly arguments: string;
  /** Opaque; the server wants it back with the call. */
  readonly signature?: string;
}

export interface AssistantTurn {
  /** Thoughts that the server sets apart; empty for none. */
  readonly thinking: string;
  readonly text: string;
  readonly calls: readonly ApiToolCall[];
  /** `length`: cut at `maxTokens`. */
  readonly stop: "stop" | "length";
  readonly usage: TokenUsage;
}

/** A part of a conversation: what was said to the model, what it said itself, and what its calls came to. */
export type ChatPart =
  | { readonly kind: "told"; readonly role: "system" | "user"; readonly text: string }
  | { readonly kind: "said"; readonly turn: AssistantTurn }
  | { readonly kind: "results"; readonly results: readonly { readonly call: ApiToolCall; readonly text: string }[] };

export interface ChatRequest {
  readonly conversation: readonly ChatPart[];
  readonly tools: readonly ToolSchema[];
  readonly sampling: Sampling;
  readonly maxTokens: number;
}

/** A model that holds conversations and calls tools: an agent whose tokens are not ours. */
export interface ChatModel {
  generate(request: ChatRequest, signal: AbortSignal): Promise<AssistantTurn>;
}
