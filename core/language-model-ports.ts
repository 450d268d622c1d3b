/**
 * @file The ports to language models behind an API. An outage that outlasts the retries (a rate limit, most 5xx, a timeout) is MgrpoError
 * `endpoint-unavailable`, retryable. What a retry cannot fix (401, 402, 404, a completion that does not match the schema) is
 * `endpoint-refused`; if there was a completion of known usage, the evidence has its `usage`.
 */
import type { z } from "zod";
import type { Sampling } from "./contracts/rollout.ts";
import type { ChatMessage, ToolSchema } from "./policy-ports.ts";

/** Tokens as the server counted them. */
export interface TokenUsage {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

export interface CompletionRequest {
  readonly messages: readonly ChatMessage[];
  /** Requests JSON that matches this schema. The completion is always checked. */
  readonly schema?: z.ZodType;
  readonly temperature?: number;
  readonly maxTokens?: number;
  /**
   * Called for each attempt whose usage is unknown although its server may charge for it: cut off by its timeout, the signal or the server, or
   * answered without usage, or with content and a usage of 0.
   */
  readonly onUnknownUsage?: () => void;
}

export interface Completion {
  /** With a schema, only the JSON. */
  readonly text: string;
  readonly usage: TokenUsage;
}

/** A model that answers single requests: for judges, the tool `reason`, and extraction from pages. */
export interface LanguageModel {
  complete(request: CompletionRequest, signal?: AbortSignal): Promise<Completion>;
}

/** A tool call in the API's form. */
export interface ApiToolCall {
  readonly id: string;
  readonly name: string;
  /** JSON as the model wrote it, possibly invalid. */
  readonly arguments: string;
  /** Opaque. The server requires it when the call is sent back. */
  readonly signature?: string;
}

export interface AssistantTurn {
  /** Reasoning that the server returns separately. Empty: none. */
  readonly thinking: string;
  readonly text: string;
  readonly calls: readonly ApiToolCall[];
  /** `thinking` is sent back to the server with the calls. */
  readonly resendsThinking?: boolean;
  /** `length`: cut at a token limit, refused as too long, or withheld because the model ran out of tokens. */
  readonly stop: "stop" | "length";
  readonly usage: TokenUsage;
}

/** A part of a conversation: a message to the model, one of the model's turns, or the results of its calls. */
export type ChatPart =
  | { readonly kind: "message"; readonly role: "system" | "user"; readonly text: string }
  | { readonly kind: "turn"; readonly turn: AssistantTurn }
  | { readonly kind: "results"; readonly results: readonly { readonly call: ApiToolCall; readonly text: string }[] };

export interface ChatRequest {
  readonly conversation: readonly ChatPart[];
  readonly tools: readonly ToolSchema[];
  readonly sampling: Sampling;
  readonly maxTokens: number;
  /** As in `CompletionRequest`. */
  readonly onUnknownUsage?: () => void;
}

/**
 * A model that holds conversations and calls tools: an agent behind an API, without token ids. A conversation that the server refuses as too
 * long, or that its content filter blocks, or whose answer it withholds, gets an empty turn: only that conversation fails.
 */
export interface ChatModel {
  generate(request: ChatRequest, signal: AbortSignal): Promise<AssistantTurn>;
}
