/** @file The tabular searcher: its gradient is that of its log-probs, its worlds match their descriptions, and training is a function of the seed. */
import { expect, test } from "vitest";
import { trainSearcher } from "../../bench/alignment/train.ts";
import {
  addGradient,
  callShares,
  callsOf,
  kindShares,
  newLogits,
  PARAMETERS,
  policyOf,
  quality,
  sampleReport,
  WORLDS,
} from "../../bench/alignment/world.ts";
import { stream } from "../../core/random.ts";

test("the gradient equals central differences of the log-probs of a report", () => {
  const logits = newLogits(stream(1));
  const report = sampleReport(policyOf(logits), 1, stream(2));
  const byLogProb = report.symbols.map((_, position) => position - 3);
  const gradient = new Float64Array(PARAMETERS);
  addGradient(gradient, policyOf(logits), report, byLogProb);
  const objective = (i: number, by: number) => {
    const policy = policyOf(logits.with(i, (logits[i] ?? 0) + by));
    const terms = report.symbols.map((symbol, position) => Math.log(policy[1]?.[position]?.[symbol] ?? 0));
    return terms.reduce((sum, term, position) => sum + (byLogProb[position] ?? 0) * term, 0);
  };
  gradient.forEach((found, i) => {
    expect(found).toBeCloseTo((objective(i, 1e-6) - objective(i, -1e-6)) / 2e-6, 6);
  });
});

test("questions need 0 to 20 calls; in by-rollout, half of the rollouts make one call of the other kind", () => {
  const counts = [...Array(8).keys()].map((q) => callsOf("alike", q, 4, stream(q)).map((calls) => calls.length));
  expect(counts[0]).toEqual([0, 0, 0, 0]);
  expect(Math.max(...counts.flat())).toBeGreaterThan(13);
  expect(callsOf("by-rollout", 0, 2, stream(0))).toEqual([[1], new Array(20).fill(0)]);
  // Of the seven numbers of calls above 0, three are at most 3.
  expect(kindShares("by-question")).toEqual([4 / 7, 3 / 7]);
  // Without early stops: 1 + 2 + 3 of 52 calls.
  expect(callShares("by-question")[1]).toBeCloseTo(6 / 52, 12);
  for (const world of WORLDS) expect(kindShares(world)[0] + kindShares(world)[1]).toBe(1);
});

test("a report is scored by its share of correct tokens: a policy that is certain of them has quality 1", () => {
  const certain = new Float64Array(PARAMETERS);
  const positions = PARAMETERS / 3 / 6;
  for (let position = 0; position < positions; position++) certain[(positions + position) * 6] = 50;
  expect(quality(policyOf(certain), 0)).toBeCloseTo(1, 12);
  expect(quality(policyOf(certain), 1)).toBeCloseTo(1 / 6, 12);
});

test("training depends on the seed alone; where few calls are of another kind, alignment learns that kind, and its absence does not", () => {
  expect(trainSearcher("alike", "resample", 3, 3)).toEqual(trainSearcher("alike", "resample", 3, 3));
  const [aligned, unaligned] = [
    trainSearcher("by-rollout", "weighted", 0, 30),
    trainSearcher("by-rollout", "none", 0, 30),
  ];
  expect(aligned.kinds[1] - unaligned.kinds[1]).toBeGreaterThan(0.1);
});
