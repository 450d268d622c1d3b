/** @file Sequences in the Tinker wire format. N = T - 1 targets: entry t of a `_T` array belongs to target t - 1. */
import type { Datum, TensorData } from "./client/messages.ts";

const int64 = (data: number[]): TensorData => ({ data, dtype: "int64", shape: [data.length] });
const float32 = (data: ArrayLike<number>): TensorData => ({
  data: Array.from(data),
  dtype: "float32",
  shape: [data.length],
});

function datum(tokens: readonly number[], inputs: Record<string, TensorData>): Datum {
  return {
    model_input: { chunks: [{ type: "encoded_text", tokens: tokens.slice(0, -1) }] },
    loss_fn_inputs: { target_tokens: int64(tokens.slice(1)), ...inputs },
  };
}

/** A datum for log-probs only, with cross_entropy. */
export const scoringDatum = (tokens: readonly number[]): Datum =>
  datum(tokens, { weights: float32(new Float32Array(tokens.length - 1).fill(1)) });

/**
 * A datum that adds `scale` * gradient_T[t] * dlogProb_t/dtheta, summed over t, to the gradient: importance_sampling
 * with the current log-probs, so every ratio is 1. Positions are masked by a gradient of 0, never by `weights`, whose
 * sum is a denominator on some servers.
 */
export function gradientDatum(
  tokens: readonly number[],
  logProbs_T: Float32Array,
  gradient_T: Float32Array,
  scale: number,
): Datum {
  return datum(tokens, {
    logprobs: float32(logProbs_T.subarray(1)),
    advantages: float32(Array.from(gradient_T.subarray(1), (g) => -g * scale)),
  });
}

/** Log-probs of the N targets -> logProbs_T. */
export function withLeadingZero(targetLogProbs: readonly number[]): Float32Array {
  const logProbs_T = new Float32Array(targetLogProbs.length + 1);
  logProbs_T.set(targetLogProbs, 1);
  return logProbs_T;
}

/** Batches of at most `limit` tokens, in order; a longer item forms its own batch. */
export function requestBatches<T>(items: readonly T[], tokensOf: (item: T) => number, limit: number): T[][] {
  const result: T[][] = [];
  let room = 0;
  for (const item of items) {
    const tokens = tokensOf(item);
    if (tokens > room) {
      result.push([]);
      room = limit;
    }
    result.at(-1)?.push(item);
    room -= tokens;
  }
  return result;
}
