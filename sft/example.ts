/**
 * @file A demonstration as one agent's token stream, laid out exactly as in a rollout: the tokens that a rollout would sample are trained on,
 * all others are context.
 */
import { MgrpoError } from "../core/errors.ts";
import type { Tokenizer } from "../core/ports.ts";
import type { Demonstration } from "../core/recipe.ts";
import type { ChatLayout } from "../engine/tokenizer/chat-layout.ts";
import type { ShowResponse } from "./shown-response.ts";

export interface Example {
  readonly tokens: readonly number[];
  /** Half-open spans of the turns that are trained on, each with its end-of-turn token. */
  readonly turns: readonly (readonly [start: number, end: number])[];
  /** Length of the prompt, if turns that are context stand between it and the first of `turns`. Absent: the first turn follows it. */
  readonly promptTokens?: number;
}

/** Limits of the agent's conversations: what a rollout could not sample is not taught. */
export interface ExampleLimits {
  readonly contextTokens: number;
  /** Absent: no limit. */
  readonly turnTokens?: number;
}

/** @param show by default, responses are shown whole. */
export function exampleOf(
  { prompt, turns }: Demonstration,
  layout: Pick<ChatLayout, "prompt" | "responses">,
  tokenizer: TurnTokenizer,
  show: ShowResponse = (text) => text,
): Example {
  const tokens = layout.prompt(prompt);
  const spans: [number, number][] = [];
  const earlier: number[] = [];
  for (const { text, responses } of turns) {
    spans.push(addTurn(tokens, text, tokenizer));
    if (responses.length > 0) for (const token of layout.responses(responses.map(show), earlier)) tokens.push(token);
    earlier.push(responses.length);
  }
  return { tokens, turns: spans };
}

export type TurnTokenizer = Pick<Tokenizer, "encodeTemplate" | "decode" | "endOfTurn">;

/** Appends a turn's tokens, its end-of-turn token included, to those before it. Returns their span. */
export function addTurn(tokens: number[], text: string, tokenizer: TurnTokenizer): [start: number, end: number] {
  const start = tokens.length;
  for (const token of tokenizer.encodeTemplate(sampledPart(text, tokens, tokenizer))) tokens.push(token);
  tokens.push(tokenizer.endOfTurn);
  return [start, tokens.length];
}

/** More tokens than `<think>` and the space after it take. */
const OPENING_TOKENS = 16;

/** The text without its `<think>` if the template has just written one: a rollout samples what follows. */
function sampledPart(text: string, before: readonly number[], { decode }: Pick<Tokenizer, "decode">): string {
  const [opening] = /^\s*<think>\s*/.exec(text) ?? [];
  if (opening === undefined || !/<think>\s*$/.test(decode(before.slice(-OPENING_TOKENS)))) return text;
  return text.slice(opening.length);
}

/**
 * Refuses a turn that has an end-of-turn token before its end, where a rollout would stop. The parser of turns does
 * not see such a token inside thinking, which it skips.
 * @param where the demonstration's location, for the message, such as `demos.jsonl:12`.
 */
export function refuseEarlyEnd(
  { tokens, turns }: Example,
  { ends, decode }: Pick<Tokenizer, "ends" | "decode">,
  where: string,
): void {
  for (const [i, [start, end]] of turns.entries()) {
    const early = tokens.slice(start, end - 1).find((token) => ends.includes(token));
    if (early === undefined) continue;
    const message = `${where}: turn ${i + 1} has ${decode([early])} before its end, where a rollout would stop: remove it, or the demonstration`;
    throw new MgrpoError("demonstrations-invalid", message);
  }
}

/** @param where as in `refuseEarlyEnd`. */
export function refuseTooLong(
  { tokens, turns }: Example,
  agent: string,
  { contextTokens, turnTokens = contextTokens }: ExampleLimits,
  where: string,
): void {
  const raise = (limit: string) => `raise agents.${agent}.limits.${limit}, or remove the demonstration`;
  if (tokens.length > contextTokens) {
    const message = `${where} takes ${tokens.length} tokens, and a conversation has at most ${contextTokens}: ${raise("contextTokens")}`;
    throw new MgrpoError("demonstrations-invalid", message);
  }
  for (const [i, [start, end]] of turns.entries()) {
    if (end - start <= turnTokens) continue;
    const message = `${where}: turn ${i + 1} takes ${end - start} tokens, and a turn has at most ${turnTokens}: ${raise("turnTokens")}`;
    throw new MgrpoError("demonstrations-invalid", message);
  }
}

export const trainedTokens = (examples: readonly Example[]): number =>
  examples.reduce((sum, { turns }) => sum + turns.reduce((count, [start, end]) => count + end - start, 0), 0);

export const allTokens = (examples: readonly Example[]): number =>
  examples.reduce((sum, { tokens }) => sum + tokens.length, 0);
