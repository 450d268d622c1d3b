/**
 * @file Samples one token from a distribution: inverse CDF with one uniform draw, after top-k and top-p; argmax at temperature 0. Also finds
 * stop sequences at the end of a sample.
 */
import type { Sampling } from "../../core/contracts/rollout.ts";
import { MgrpoError } from "../../core/errors.ts";

export interface SampledToken {
  readonly token: number;
  /** Under the full distribution, before top-k and top-p. */
  readonly logProb: number;
}

/**
 * Samples from the probabilities of all tokens [V], which the caller computed at the sampling temperature (at 1 when greedy).
 * @throws MgrpoError `checkpoint-damaged` if the token's probability is not a positive, finite number, as with weights that are NaN.
 */
export function sampleToken(probabilities: Float32Array, sampling: Sampling, uniform: () => number): SampledToken {
  const token =
    sampling.temperature === 0
      ? argmax(probabilities)
      : sampling.topK === 0 && sampling.topP === 1
        ? inverseCdf(probabilities, uniform())
        : truncatedCdf(probabilities, sampling, uniform());
  return { token, logProb: logProbOf(probabilities[token]) };
}

/**
 * The log-prob of a sampled token, whose probability is positive, and at most 1 up to rounding. Memory-mapped weights are not checked
 * in advance, so NaN in them is found here.
 * @throws MgrpoError `checkpoint-damaged` for a probability that is not positive and finite.
 */
export function logProbOf(probability: number | undefined): number {
  if (probability !== undefined && probability > 0 && Number.isFinite(probability)) {
    return Math.min(0, Math.log(probability));
  }
  throw new MgrpoError(
    "checkpoint-damaged",
    `the model gives the next token probability ${probability}: its weights hold NaN, infinity or far too large values: take a checkpoint from before its training diverged`,
  );
}

function argmax(probabilities: Float32Array): number {
  let best = 0;
  for (let i = 1; i < probabilities.length; i++) {
    if ((probabilities[i] as number) > (probabilities[best] as number)) best = i;
  }
  return best;
}

/** The first token whose cumulative probability exceeds u, or, if rounding leaves the total at or below u, the last with a positive probability. */
function inverseCdf(probabilities: Float32Array, u: number): number {
  let sum = 0;
  let last = 0;
  for (let i = 0; i < probabilities.length; i++) {
    const p = probabilities[i] as number;
    if (p > 0) last = i;
    sum += p;
    if (sum > u) return i;
  }
  return last;
}

/** Top-k, then top-p: the fewest tokens, most probable first, whose share of the mass kept by top-k reaches p. Ties go to the lower id. */
function truncatedCdf(probabilities: Float32Array, { topK, topP }: Sampling, u: number): number {
  const p = (i: number) => probabilities[i] ?? 0;
  const { likeliest, total: mass } = mostProbable(probabilities, { topK, topP });
  const candidates = topK > 0 ? likeliest.slice(0, topK) : likeliest;
  const total = topK > 0 ? candidates.reduce((sum, i) => sum + p(i), 0) : mass;
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
  return nucleus.at(-1) ?? 0;
}

/** Floats of equal sign, exponent and first three bits of the mantissa share a bucket; a greater probability is never in a lower bucket. */
const [BUCKETS, BUCKET_SHIFT] = [2 ** 12, 20];

/**
 * The most probable tokens in order, ties by id: at least `topK`; if that is 0, enough to hold the share `topP` of `total`, the mass of all.
 * Sorting the whole vocabulary would take longer than decoding a token.
 */
function mostProbable(
  probabilities: Float32Array,
  { topK, topP }: Pick<Sampling, "topK" | "topP">,
): { likeliest: number[]; total: number } {
  const p = (i: number) => probabilities[i] as number;
  const bits = new Uint32Array(probabilities.buffer, probabilities.byteOffset, probabilities.length);
  const bucketOf = (i: number) => (bits[i] as number) >>> BUCKET_SHIFT;
  const [counts, masses] = [new Uint32Array(BUCKETS), new Float64Array(BUCKETS)];
  for (let i = 0; i < probabilities.length; i++) {
    const bucket = bucketOf(i);
    counts[bucket] = (counts[bucket] as number) + 1;
    masses[bucket] = (masses[bucket] as number) + p(i);
  }
  const total = masses.reduce((sum, mass) => sum + mass, 0);
  let [lowest, count, mass] = [BUCKETS, 0, 0];
  const isEnough = () => count > 0 && (topK > 0 ? count >= topK : mass >= topP * total);
  while (lowest > 0 && !isEnough()) {
    lowest--;
    count += counts[lowest] as number;
    mass += masses[lowest] as number;
  }
  const likeliest: number[] = [];
  for (let i = 0; i < probabilities.length; i++) if (bucketOf(i) >= lowest) likeliest.push(i);
  return { likeliest: likeliest.sort((a, b) => p(b) - p(a) || a - b), total };
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
