/** @file Token counts as servers report them, in all their variants. */
import type { TokenUsage } from "../../core/language-model-ports.ts";

/** Undefined if the counts are unusable. `total`: the server's `total_tokens`. */
export function usageOf(input: number | undefined, output: number | undefined, total: unknown): TokenUsage | undefined {
  const [inputTokens, outputTokens] = [tokensOf(input), tokensOf(chargedOutput(input, output, total))];
  return inputTokens === undefined || outputTokens === undefined ? undefined : { inputTokens, outputTokens };
}

/** All output that is charged: the `completion_tokens` of xAI and Gemini leave out reasoning, which only `total_tokens` includes. */
function chargedOutput(input: number | undefined, output: number | undefined, total: unknown): number | undefined {
  if (typeof total !== "number" || output === undefined) return output;
  return Math.max(output, total - (input ?? total));
}

/** More than any model reads or writes in one request: a larger count is nonsense. */
const MAX_TOKENS = 1e9;

/** A whole number: some servers report fractions. A negative count is 0, since a refusal would halt the run. Undefined: the count is unusable. */
function tokensOf(count: number | undefined): number | undefined {
  if (count === undefined || !(count <= MAX_TOKENS)) return undefined;
  return Math.max(0, Math.ceil(count));
}
