/**
 * @file What requests to a model behind an API cost. A server may charge, without saying how much, for a request that was cut off (by its
 * timeout, its caller or the server itself), or that it answers without usage or with a usage of 0. Such a request is charged at its maximum
 * cost.
 */
import type { TokenPrices } from "./contracts/language-model.ts";
import { errorText, isMgrpoError, MgrpoError } from "./errors.ts";
import type { TokenUsage } from "./language-model-ports.ts";

/** In dollars. */
export function costUsd({ input, output }: TokenPrices, { inputTokens, outputTokens }: TokenUsage): number {
  return (inputTokens * input + outputTokens * output) / 1e6;
}

/**
 * UTF-8 bytes per token: about 4 in English and 3 in Chinese, fewer in numbers and rare scripts. A small value, so that estimates are seldom
 * too low.
 */
const BYTES_PER_TOKEN = 3;

/** The maximum cost of a request in dollars: with `maxTokens` output tokens. @param texts the texts of its prompt. */
export function maxCostUsd(prices: TokenPrices, texts: readonly string[], maxTokens: number): number {
  const bytes = texts.reduce((sum, text) => sum + new TextEncoder().encode(text).length, 0);
  return costUsd(prices, { inputTokens: Math.ceil(bytes / BYTES_PER_TOKEN), outputTokens: maxTokens });
}

/** Pays for a request when it has ended, even if it failed. If the payment fails too, its error has the request's error as its cause. */
export async function payAfter<T>(request: () => Promise<T>, pay: () => Promise<void>): Promise<T> {
  let result: T;
  try {
    result = await request();
  } catch (error) {
    await pay().catch((paymentError: unknown) => {
      throw bothFailed(paymentError, error);
    });
    throw error;
  }
  await pay();
  return result;
}

function bothFailed(paymentError: unknown, cause: unknown): Error {
  const message = `${errorText(paymentError)}; the request to be paid for had failed: ${errorText(cause)}`;
  if (!isMgrpoError(paymentError)) return new Error(message, { cause });
  const { code, retryable, evidence } = paymentError;
  return new MgrpoError(code, message, { retryable, evidence, cause });
}
