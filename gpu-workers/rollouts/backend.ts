/**
 * @file One agent in one conversation, whatever it is made of: it is asked, says turns, and hears what its calls came to. How its words
 * are made (tokens of a checkpoint, an API far away) is its own affair, and so is what it leaves behind.
 */
import type { AgentConfig } from "../../core/contracts/agent-config.ts";
import type { AnyTrajectory, Sampling } from "../../core/contracts/rollout.ts";
import type { Event } from "../../core/conversation/reducer.ts";
import type { Toolbox } from "../../core/conversation/toolbox.ts";
import type { Tool } from "../../core/ports.ts";
import type { StreamName } from "../../core/random.ts";

/** Which agent, in which conversation. */
export interface Part {
  readonly agent: string;
  readonly version: number;
  readonly config: AgentConfig;
  /** The recipe's tools; the config says which of them are this agent's. */
  readonly tools: ReadonlyMap<string, Tool>;
  readonly sampling: Sampling;
  /** Turn i draws from `[...stream, "turn", i]`. */
  readonly stream: StreamName;
  readonly sequence: string;
}

/** A turn, and what it adds to the tokens of the conversation. */
export type Said = Omit<Extract<Event, { kind: "sampled" }>, "kind">;

/** Texts are neutralised by whoever shows them. All calls but `close` come in the order of the conversation. */
export interface Speaker<T extends AnyTrajectory = AnyTrajectory> {
  readonly toolbox: Toolbox;
  /** Tokens that a text takes when it is shown; absent: only its server knows. */
  count?(text: string): number;
  /** Shows it the question. Tokens up to the first word it says, as far as they are known. */
  ask(prompt: string): number;
  /** Rejects with `cancelled` when the signal aborts. */
  say(turn: number, maxTokens: number, signal: AbortSignal): Promise<Said>;
  /** Shows it the responses to the calls of its last turn, in their order. Tokens, as far as they are known. */
  hear(responses: readonly string[]): number;
  /** What is kept of it. What it was shown after its last turn is not a part of it. */
  trajectory(): T;
  close(): void;
}
