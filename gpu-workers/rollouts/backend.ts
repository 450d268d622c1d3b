/**
 * @file What generates an agent's turns in one conversation: a checkpoint, token by token (token-backend.ts), or a model behind an API
 * (endpoint/backend.ts). The conversation is the same for both.
 */
import type { AgentConfig } from "../../core/contracts/agent-config.ts";
import type { AnyTrajectory, Sampling } from "../../core/contracts/rollout.ts";
import type { ConversationEvent } from "../../core/conversation/reducer.ts";
import type { Toolbox } from "../../core/conversation/toolbox.ts";
import type { Tool } from "../../core/ports.ts";
import type { StreamName } from "../../core/random.ts";

/** Which agent, in which conversation. */
export interface BackendOptions {
  readonly agent: string;
  readonly version: number;
  readonly config: AgentConfig;
  /** Includes the tools that `config.tools` names. */
  readonly tools: ReadonlyMap<string, Tool>;
  readonly sampling: Sampling;
  /** The name of a turn's random stream, given all tokens before it. */
  readonly streamName: (turn: number, tokens: readonly number[]) => StreamName;
  /** Identifies the conversation to the engine's KV cache. */
  readonly sequence: string;
}

/** A turn, and the number of tokens that it adds to the conversation. */
export type GeneratedTurn = Omit<Extract<ConversationEvent, { kind: "sampled" }>, "kind">;

/** Calls come in the order of the conversation: `start`, then `generate` and `observe` in turn. The caller escapes special tokens. */
export interface AgentBackend<T extends AnyTrajectory = AnyTrajectory> {
  readonly toolbox: Toolbox;
  /** Tokens that a text occupies in the conversation; absent if only the server can count them. */
  count?(text: string): number;
  /** Shows the prompt. Returns the number of tokens before the first turn; 0 if only the server can count them. */
  start(prompt: string): number;
  /** Rejects with `canceled` when the signal aborts. */
  generate(turn: number, maxTokens: number, signal: AbortSignal): Promise<GeneratedTurn>;
  /** Shows the responses to the calls of the last turn, in order. Returns the number of tokens that they add; 0 as in `start`. */
  observe(responses: readonly string[]): number;
  /** The record of the conversation. What was shown after the last turn is left out. */
  trajectory(): T;
  close(): void;
}
