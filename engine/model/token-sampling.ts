/** @file Samples one token from a distribution: inverse CDF with one uniform draw, after top-k and top-p; argmax at temperature 0. */
import type { Sampling } from "../../core/contracts/rollout.ts";

export interface SampledToken {
  readonly token: number;
  /** Under the full distribution, before top-k and top-p. */
  readonly logProb: number;
}

/** Samples from `count` probabilities that start at index `from`, taken at the sampling temperature (at 1 when greedy). */
export function sampleToken(
  probabilities: Float32Array,
  from: number,
  count: number,
  sampling: Sampling,
  uniform: () => number,
): SampledToken {
  const to = from + count;
  const chosen =
    sampling.temperature === 0
      ? argmax(probabilities, from, to)
      : sampling.topK === 0 && sampling.topP === 1
        ? inverseCdf(probabilities, from, to, uniform())
        : truncatedCdf(probabilities, from, to, sampling, uniform());
  return { token: chosen - from, logProb: Math.min(0, Math.log(probabilities[chosen] ?? 0)) };
}

function argmax(probabilities: Float32Array, from: number, to: number): number {
  let best = from;
  for (let i = from + 1; i < to; i++) if ((probabilities[i] as number) > (probabilities[best] as number)) best = i;
  return best;
}

/** The first token whose cumulative probability exceeds u, or, if rounding leaves u above the total, the last with a positive probability. */
function inverseCdf(probabilities: Float32Array, from: number, to: number, u: number): number {
  let sum = 0;
  let last = from;
  for (let i = from; i < to; i++) {
    const p = probabilities[i] as number;
    if (p > 0) last = i;
    sum += p;
    if (sum > u) return i;
  }
  return last;
}

/** Top-k, then top-p: the fewest tokens, most probable first, whose share of the mass kept by top-k reaches p. Ties go to the lower id. */
function truncatedCdf(
  probabilities: Float32Array,
  from: number,
  to: number,
  { topK, topP }: Sampling,
  u: number,
): number {
  const order = Array.from({ length: to - from }, (_, i) => from + i);
  const p = (i: number) => probabilities[i] ?? 0;
  order.sort((a, b) => p(b) - p(a) || a - b);
  const candidates = topK > 0 ? order.slice(0, topK) : order;
  const total = candidates.reduce((sum, i) => sum + p(i), 0);
  let kept = 0;
  const nucleus: number[] = [];
  for (const i of candidates) {
    nucleus.push(i);
    kept += p(i);
    if (kept >= topP * total) break;
  }
  let sum = 0;
  for (const i of nucleus) {
    sum += p(i);
    if (sum > u * kept) return i;
  }
  return nucleus.at(-1) ?? from;
}

/** Whether the tokens end with one of the stop sequences. */
export function endsWithStop(tokens: readonly number[], stops: readonly (readonly number[])[]): boolean {
  return stops.some(
    (stop) =>
      stop.length > 0 &&
      stop.length <= tokens.length &&
      stop.every((token, i) => token === tokens[tokens.length - stop.length + i]),
  );
}
