/** @file Draws from truncated distributions, compared with a sort of the whole vocabulary; NaN and tokens of probability 0 are never sampled. */
import { expect, test } from "vitest";
import type { Sampling } from "../../core/contracts/rollout.ts";
import { stream } from "../../core/random.ts";
import { sampleToken } from "../../engine/model/token-sampling.ts";

const { uniform } = stream("token-sampling");

/** Probabilities, as a view between other values, like a row of a decode; with `levels`, many are equal. */
function distribution(size: number, peak: number, levels = 0): Float32Array {
  const weights = Array.from({ length: size }, () => Math.exp(peak * uniform()));
  const rounded = levels > 0 ? weights.map((weight) => Math.ceil(weight * levels)) : weights;
  const total = rounded.reduce((sum, weight) => sum + weight, 0);
  return Float32Array.from([0.5, 1, 0.25, ...rounded.map((weight) => weight / total), 0.5]).subarray(3, 3 + size);
}

/** The tokens that top-k and top-p allow by definition, most probable first, and their probabilities. */
function nucleus(probabilities: Float32Array, size: number, { topK, topP }: Sampling): { token: number; p: number }[] {
  const all = Array.from({ length: size }, (_, token) => ({ token, p: probabilities[token] as number }));
  const sorted = all.sort((a, b) => b.p - a.p || a.token - b.token);
  const candidates = topK > 0 ? sorted.slice(0, topK) : sorted;
  const total = candidates.reduce((sum, { p }) => sum + p, 0);
  let kept = 0;
  const end = candidates.findIndex(({ p }) => {
    kept += p;
    return kept >= topP * total;
  });
  return candidates.slice(0, end < 0 ? size : end + 1);
}

const sizes = [1, 7, 500, 5000];
const truncations = [1, 3, 40].flatMap((topK) => [0.2, 0.9, 1].map((topP) => ({ topK, topP })));
const cases = [...truncations, ...[0.05, 0.5, 0.95].map((topP) => ({ topK: 0, topP }))];

test.each(cases)("top-k $topK and top-p $topP sample the token that a sort of the vocabulary gives", (truncation) => {
  const sampling: Sampling = { temperature: 1, ...truncation };
  for (const size of sizes) {
    for (const [peak, levels] of [
      [0, 0],
      [3, 0],
      [12, 0],
      [2, 2],
    ] as const) {
      const probabilities = distribution(size, peak, levels);
      const allowed = nucleus(probabilities, size, sampling);
      const mass = allowed.reduce((sum, { p }) => sum + p, 0);
      for (let draw = 0; draw < 20; draw++) {
        const u = uniform();
        let sum = 0;
        const expected = allowed.find(({ p }) => {
          sum += p;
          return sum > u * mass;
        });
        const { token, logProb } = sampleToken(probabilities, sampling, () => u);
        expect(token).toBe((expected ?? allowed.at(-1))?.token);
        expect(logProb).toBe(Math.min(0, Math.log(probabilities[token] as number)));
      }
    }
  }
});

test.each([
  { temperature: 0, topK: 0, topP: 1 },
  { temperature: 1, topK: 0, topP: 1 },
  { temperature: 1, topK: 2, topP: 1 },
  { temperature: 1, topK: 0, topP: 0.5 },
])("NaN is refused at %o, not sampled as a token", (sampling) => {
  const probabilities = new Float32Array(4).fill(Number.NaN);
  expect(() => sampleToken(probabilities, sampling, () => 0.5)).toThrow(
    expect.objectContaining({
      code: "checkpoint-damaged",
      message: expect.stringMatching(/probability NaN: its weights/),
    }),
  );
});

test.each([
  { topK: 0, topP: 1 },
  { topK: 0, topP: 0.9 },
  { topK: 2, topP: 1 },
  { topK: 4, topP: 1 },
])("with top-k $topK and top-p $topP, a token of probability 0 is never sampled", (truncation) => {
  const sampling = { temperature: 1, ...truncation };
  // Rounding may leave a sum below 1, and the draw above it.
  for (const probability of [1, 0.99]) {
    const probabilities = Float32Array.of(0, probability, 0, 0);
    for (const draw of [0, 0.999999]) expect(sampleToken(probabilities, sampling, () => draw).token).toBe(1);
  }
});
