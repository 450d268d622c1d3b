/**
 * @file The tabular searcher: its gradient is that of its log-probs, its worlds and scores match their descriptions, training is a function of
 * the seed, and alignment and aggregation change how well rare kinds of call are learned.
 */
import { expect, test } from "vitest";
import { trainSearcher } from "../../bench/alignment/train.ts";
import {
  addGradient,
  callsOf,
  isCorrect,
  LENGTHS,
  newLogits,
  policyOf,
  quality,
  reportScore,
  sampleReport,
  tasksOf,
  WORLDS,
  zeroGradient,
} from "../../bench/alignment/world.ts";
import { stream } from "../../core/random.ts";

test.each([
  ["equal", 8],
  ["unequal", 40],
  ["unequal", 8],
] as const)(
  "with lengths %s, the gradient of a report of %i tokens equals central differences of its log-probs",
  (lengths, tokens) => {
    const logits = newLogits(stream(1), lengths);
    const report = sampleReport(policyOf(logits), { kind: 1, length: tokens }, stream(2));
    expect(report.tokens).toHaveLength(tokens);
    const byLogProb = report.tokens.map((_, position) => position - 3);
    const gradient = zeroGradient(policyOf(logits));
    expect(gradient).toHaveLength(logits.length);
    addGradient(gradient, policyOf(logits), report, byLogProb);
    const objective = (i: number, by: number) => {
      const policy = policyOf(logits.with(i, (logits[i] ?? 0) + by));
      const terms = report.tokens.map((token, position) => Math.log(policy[1]?.[position]?.[token] ?? 0));
      return terms.reduce((sum, term, position) => sum + (byLogProb[position] ?? 0) * term, 0);
    };
    // All parameters of a small policy, some of a large one.
    for (let i = 0; i < gradient.length; i += lengths === "equal" ? 1 : 7)
      expect(gradient[i]).toBeCloseTo((objective(i, 1e-6) - objective(i, -1e-6)) / 2e-6, 5);
  },
);

test("questions need 0 to 20 calls; in by-rollout, half of the rollouts make one call of the other kind", () => {
  const countsOf = (lengths: (typeof LENGTHS)[number]) =>
    [...Array(8).keys()].map((q) => callsOf("alike", lengths, q, 4, stream(q)).map((calls) => calls.length));
  expect(countsOf("equal")[0]).toEqual([0, 0, 0, 0]);
  expect(Math.max(...countsOf("equal").flat())).toBeGreaterThan(13);
  expect(countsOf("unequal")).toEqual(countsOf("equal"));
  const [one, many] = callsOf("by-rollout", "equal", 0, 2, stream(0));
  expect(one).toEqual([{ kind: 1, length: 8 }]);
  expect(many).toEqual(new Array(20).fill({ kind: 0, length: 8 }));
});

test("with unequal lengths, reports have 40 tokens where one to three calls are needed, and 8 elsewhere", () => {
  for (const [q, needed] of [0, 1, 2, 3, 5, 8, 13, 20].entries()) {
    for (const world of ["alike", "by-question"] as const) {
      const calls = callsOf(world, "unequal", q, 4, stream(q)).flat();
      expect(new Set(calls.map(({ length }) => length))).toEqual(new Set(needed === 0 ? [] : [needed <= 3 ? 40 : 8]));
    }
  }
  const [one, many] = callsOf("by-rollout", "unequal", 0, 2, stream(0));
  expect(one).toEqual([{ kind: 1, length: 40 }]);
  expect(many).toEqual(new Array(20).fill({ kind: 0, length: 8 }));
});

test("a world's tasks have the shares worked out by hand, and the shares of rollouts and of calls sum to 1", () => {
  expect(tasksOf("alike", "equal")).toEqual([{ kind: 0, length: 8, ofRollouts: 1, ofCalls: 1 }]);
  // Of the seven numbers of calls above 0, three are at most 3. Without early stops, these make up 1 + 2 + 3 of 52 calls.
  expect(tasksOf("by-question", "equal")).toEqual([
    { kind: 0, length: 8, ofRollouts: 4 / 7, ofCalls: 46 / 52 },
    { kind: 1, length: 8, ofRollouts: 3 / 7, ofCalls: 6 / 52 },
  ]);
  expect(tasksOf("alike", "unequal").map(({ kind, length }) => [kind, length])).toEqual([
    [0, 8],
    [0, 40],
  ]);
  expect(tasksOf("by-rollout", "unequal")[1]).toEqual({ kind: 1, length: 40, ofRollouts: 0.5, ofCalls: 1 / 21 });
  for (const world of WORLDS) {
    for (const lengths of LENGTHS) {
      const tasks = tasksOf(world, lengths);
      expect(tasks.reduce((sum, { ofRollouts }) => sum + ofRollouts, 0)).toBe(1);
      expect(tasks.reduce((sum, { ofCalls }) => sum + ofCalls, 0)).toBeCloseTo(1, 12);
    }
  }
});

test("a report is scored by its share of correct tokens: a policy that is certain of them has quality 1", () => {
  const certain = newLogits(stream(1), "unequal").fill(0);
  const positions = certain.length / 3 / 6;
  for (let position = 0; position < positions; position++) certain[(positions + position) * 6] = 50;
  for (const length of [8, 40]) {
    expect(quality(policyOf(certain), { kind: 0, length })).toBeCloseTo(1, 12);
    expect(quality(policyOf(certain), { kind: 1, length })).toBeCloseTo(1 / 6, 12);
  }
  const report = { kind: 1, tokens: [1, 0, 1, 1], logProbs: [] };
  expect(reportScore(report)).toBe(3 / 4);
  expect([isCorrect([report]), isCorrect([report, { ...report, tokens: [0, 1, 1, 1] }])]).toEqual([true, false]);
});

test("training is determined by the seed; where few calls are of another kind, weighted alignment learns that kind better than none", () => {
  expect(trainSearcher("alike", "resample", 3, 3)).toEqual(trainSearcher("alike", "resample", 3, 3));
  const [aligned, unaligned] = [
    trainSearcher("by-rollout", "weighted", 0, 30),
    trainSearcher("by-rollout", "none", 0, 30),
  ];
  expect((aligned.qualities[1] ?? 0) - (unaligned.qualities[1] ?? 1)).toBeGreaterThan(0.1);
});

test("without alignment, token-mean learns the long reports of few calls better than trajectory-mean", () => {
  const ofFew = (aggregation: "trajectory-mean" | "token-mean", lengths: (typeof LENGTHS)[number]) =>
    trainSearcher("by-rollout", "none", 0, 20, { lengths, aggregation }).qualities[1] ?? 0;
  expect(ofFew("token-mean", "unequal")).toBeGreaterThan(ofFew("trajectory-mean", "unequal"));
  // Reports of one length have the same weights either way.
  expect(ofFew("token-mean", "equal")).toBeCloseTo(ofFew("trajectory-mean", "equal"), 6);
});
