/**
 * @file The training step on a toy policy: its update, its statistics, and what it refuses. One pass of clipped-token and the linear loss
 * give the same update, which follows the objective's gradient.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AlgorithmConfig } from "../../core/contracts/algorithm-config.ts";
import { TrainingStats } from "../../core/contracts/checkpoint.ts";
import { isMgrpoError } from "../../core/errors.ts";
import { tokenWeights } from "../../core/mgrpo/batch.ts";
import { klToGo_A } from "../../core/mgrpo/kl.ts";
import { trajectoryLoss } from "../../core/mgrpo/loss.ts";
import { spreadTurns } from "../../core/mgrpo/tokens.ts";
import { batchOf, type ToyEntry, temperature, toy, VOCABULARY_SIZE } from "../fakes/toy-batch.ts";
import { ToyTrainer } from "../fakes/toy-trainer.ts";
import { toyConfig, toyOptimizer, trainAlone } from "./train-alone.ts";

/** Forces the linear loss and changes nothing else: the mask lets everything through. */
const everythingPasses = { ratioMask: { low: 0, high: 1e9 } };

describe("one pass of clipped-token gives the same update as the linear loss", () => {
  const linearCalls = ["logProbs", "forwardBackward:linear", "optimizerStep"];
  const cases = (["trajectory-mean", "token-mean", "constant"] as const).flatMap((aggregation) =>
    [0, 1.5].flatMap((noise) => [1, 2].map((minibatches) => ({ aggregation, noise, minibatches }))),
  );
  test.each(cases)("%o", async ({ aggregation, noise, minibatches }) => {
    const [direct, linear] = [toy(1), toy(1)];
    const options = { aggregation, minibatches, constantTokens: 10 };
    const batch = batchOf(2, direct, noise, options);
    const one = await trainAlone(direct, [batch], toyConfig(options));
    const two = await trainAlone(linear, [batch], toyConfig({ ...options, ...everythingPasses }));
    const directCalls = ["forwardBackward:clipped-token", "optimizerStep"];
    expect(direct.calls).toEqual(Array.from({ length: minibatches }, () => directCalls).flat());
    expect(linear.calls).toEqual(Array.from({ length: minibatches }, () => linearCalls).flat());
    expectClose([...linear.logits], [...direct.logits]);
    const { maskedFraction, ...stats } = two.stats;
    expect(maskedFraction).toBe(0);
    expectClose(Object.values(stats), Object.values(one.stats));
  });
});

const OPTIONS: Partial<AlgorithmConfig>[] = [
  {},
  { ratio: "sequence" },
  { ratio: "sequence-mean", aggregation: "token-mean" },
  { kl: { coefficient: 0.2, estimator: "k1" } },
  { kl: { coefficient: 0.2, estimator: "k2" }, ratio: "sequence-mean" },
  { kl: { coefficient: 0.2, estimator: "k1", in: "reward" } },
  { kl: { coefficient: 0.2, estimator: "k1", in: "reward" }, ratio: "sequence-mean", tisCap: 1.1 },
  { kl: { coefficient: 0.2, estimator: "k3" }, aggregation: "constant", constantTokens: 10 },
  { tisCap: 1.1 },
  { ratioMask: { low: 0.7, high: 1.4 } },
  { policyLoss: { kind: "dual-clip", c: 1.2 } },
  { tisCap: 1.2, ratioMask: { low: 0.7, high: 1.4 }, ratio: "sequence" },
];

/** Each turn with an advantage of its own. */
const withTurns = (batch: readonly ToyEntry[]): ToyEntry[] =>
  batch.map((entry, i) => ({ ...entry, turns: entry.trajectory.actions.map((_, turn) => 0.8 * (-1) ** (turn + i)) }));

const DESCENTS = [false, true].flatMap((turns) => OPTIONS.map((options) => ({ turns, ...options })));

test.each(DESCENTS.map(({ turns, ...options }) => [JSON.stringify(options), turns, options] as const))(
  "the update follows the objective's gradient, by central differences: %s, turn rewards: %s",
  async (_name, turns, options) => {
    const [trainer, reference] = [toy(4), toy(5)];
    const start = [...trainer.logits];
    const plain = batchOf(6, trainer, 1, options);
    const batch = turns ? withTurns(plain) : plain;
    const { stats } = await trainAlone(trainer, [batch], toyConfig(options), reference);
    const objective = (logits: number[]) =>
      lossOf(new ToyTrainer(VOCABULARY_SIZE, logits), toy(4), reference, batch, options);
    expect(stats.loss).toBeCloseTo(objective(start), 5);
    start.forEach((value, i) => {
      const at = (by: number) => objective(start.with(i, value + by));
      const gradient = (at(1e-5) - at(-1e-5)) / 2e-5;
      expect((value - (trainer.logits[i] ?? 0)) / toyOptimizer.learningRate).toBeCloseTo(gradient, 4);
    });
  },
);

/** The objective as a function of a policy: the mean over the two questions, as one sum over the whole batch. */
function lossOf(
  current: ToyTrainer,
  proximal: ToyTrainer,
  reference: ToyTrainer,
  batch: ToyEntry[],
  options: Partial<AlgorithmConfig>,
): number {
  const algorithm = AlgorithmConfig.parse(options);
  const weights = tokenWeights(
    batch.map(({ group, weight, trajectory }) => ({ group, weight, actionTokens: trajectory.logProbs.length })),
    algorithm,
  );
  return batch.reduce((sum, { trajectory, advantage, turns }, i) => {
    const logProbs_A = (policy: ToyTrainer) => {
      const logProbs_T = policy.logProbsOf(trajectory.tokens, temperature);
      return trajectory.actions.flatMap(([from, to]) => logProbs_T.slice(from, to));
    };
    const ofTurns_A = turns ? spreadTurns(trajectory, turns) : trajectory.logProbs.map(() => 0);
    const inReward = algorithm.kl.in === "reward" ? algorithm.kl.coefficient : 0;
    const toGo_A = klToGo_A(logProbs_A(proximal), logProbs_A(reference), inReward);
    const { loss } = trajectoryLoss(
      {
        advantage,
        offsets_A: ofTurns_A.map((offset, a) => offset - (toGo_A[a] ?? 0)),
        tokenWeight: weights[i] ?? 0,
        current_A: logProbs_A(current),
        behavior_A: trajectory.logProbs,
        proximal_A: logProbs_A(proximal),
        reference_A: logProbs_A(reference),
      },
      algorithm,
    );
    return sum + loss / 2;
  }, 0);
}

test("micro-batching changes nothing: an engine that takes one sequence at a time gets the same weights", async () => {
  class OneByOne extends ToyTrainer {
    override async forwardBackward(...[batch, loss, at]: Parameters<ToyTrainer["forwardBackward"]>) {
      const parts = [];
      for (const sequence of batch) parts.push(await super.forwardBackward([sequence], loss, at));
      return {
        loss: parts.reduce((sum, part) => sum + part.loss, 0),
        logProbs: parts.flatMap((part) => part.logProbs),
      };
    }
  }
  for (const options of OPTIONS) {
    const whole = toy(7);
    const cut = new OneByOne(VOCABULARY_SIZE, whole.logits);
    const batch = batchOf(8, whole, 1, options);
    const one = await trainAlone(whole, [batch], toyConfig(options), toy(9));
    const two = await trainAlone(cut, [batch], toyConfig(options), toy(9));
    expectClose([...cut.logits], [...whole.logits]);
    expectClose(Object.values(two.stats), Object.values(one.stats));
  }
});

describe("without advantages", () => {
  const zeros = { loss: 0, gradientNorm: 0 };

  test("if all advantages are 0, the trainer is not called; only the entropy and the counts are measured", async () => {
    const trainer = toy(1);
    const batch = batchOf(1, trainer, 0).map((entry) => ({ ...entry, advantage: 0 }));
    const { trained, stats } = await trainAlone(trainer, [batch], toyConfig());
    expect(trained).toBe(false);
    expect(trainer.calls).toEqual([]);
    const logProbs = batch.flatMap(({ trajectory }) => [...trajectory.logProbs]);
    const surprisal = -logProbs.reduce((sum, value) => sum + value, 0);
    const actionTokens = batch.reduce((sum, { trajectory }) => sum + trajectory.logProbs.length, 0);
    const tokens = batch.reduce((sum, { trajectory }) => sum + trajectory.tokens.length, 0);
    expect(stats).toEqual({
      ...zeros,
      entropy: expect.closeTo(surprisal / actionTokens, 10),
      trajectories: 5,
      actionTokens,
      tokens,
    });
  });

  test("without trajectories, nothing is trained, there is no entropy, and all other statistics that exist are 0", async () => {
    const result = await trainAlone(toy(1), [], toyConfig());
    expect(result).toEqual({ trained: false, stats: { ...zeros, trajectories: 0, actionTokens: 0, tokens: 0 } });
  });

  test("with a KL term, trajectories of advantage 0 still pull toward the reference", async () => {
    const [trainer, reference] = [toy(1), toy(2)];
    const batch = batchOf(1, trainer, 0).map((entry) => ({ ...entry, advantage: 0 }));
    const config = toyConfig({ kl: { coefficient: 1, estimator: "k2" } });
    const first = await trainAlone(trainer, [batch], config, reference);
    const second = await trainAlone(trainer, [batch], config, reference);
    expect(first.trained).toBe(true);
    expect(second.stats.loss).toBeLessThan(first.stats.loss);
  });

  test("a trajectory of advantage 0 costs no computation and does not change the update", async () => {
    const [trainer, other] = [toy(1), toy(1)];
    const batch = batchOf(1, trainer, 0.5);
    await trainAlone(trainer, [batch], toyConfig());
    expect(trainer.sequencesSeen).toEqual(batch.slice(0, 4).map(({ trajectory }) => trajectory.tokens));
    await trainAlone(other, [batch.slice(0, 4)], toyConfig());
    expect(other.logits).toEqual(trainer.logits);
  });
});

test("a zero-variance question counts in the mean: beside one, the other question's gradient is half as large", async () => {
  const [alone, beside] = [toy(1), toy(1)];
  const start = [...alone.logits];
  const learning = batchOf(1, alone, 0.5).filter(({ group }) => group === 0);
  const zeroVariance = learning.map((entry) => ({ ...entry, group: 1, groupStd: 0, advantage: 0 }));
  const one = await trainAlone(alone, [learning], toyConfig());
  const two = await trainAlone(beside, [[...learning, ...zeroVariance]], toyConfig());
  expect(two.stats.loss).toBeCloseTo(one.stats.loss / 2, 12);
  start.forEach((value, i) => {
    expect((beside.logits[i] ?? Number.NaN) - value).toBeCloseTo(((alone.logits[i] ?? Number.NaN) - value) / 2, 6);
  });
});

test("on policy, the ratio is 1 and nothing is clipped; the trainer gets the sampling temperature", async () => {
  const trainer = toy(3);
  const batch = batchOf(3, trainer, 0);
  const { trained, stats } = await trainAlone(trainer, [batch], toyConfig());
  expect(trained).toBe(true);
  expect(stats.maxRatioDeviation).toBeLessThan(1e-6);
  expect(Math.abs(stats.kl ?? Number.NaN)).toBeLessThan(1e-9);
  expect(stats.clipFraction).toBe(0);
  expect([...trainer.temperatures]).toEqual([temperature]);
  expect(TrainingStats.parse(stats)).toEqual(stats);
});

test("a disagreement between sampler and trainer is reported, and does not stop the step", async () => {
  const trainer = toy(3);
  const [first, ...rest] = batchOf(3, trainer, 0);
  if (!first) throw new Error("empty batch");
  // One token is recorded 1 nat too low: its ratio is e.
  const logProbs = first.trajectory.logProbs.with(0, (first.trajectory.logProbs[0] ?? 0) - 1);
  const batch = [{ ...first, trajectory: { ...first.trajectory, logProbs } }, ...rest];
  const { stats } = await trainAlone(trainer, [batch], toyConfig());
  expect(stats.maxRatioDeviation).toBeCloseTo(Math.E - 1, 5);
  // Advantage > 0 and ratio e > 1.28: among the tokens of the four trajectories whose advantage is not 0, only that one is clipped.
  const tokens = batch.slice(0, 4).reduce((sum, { trajectory }) => sum + trajectory.logProbs.length, 0);
  expect(stats.clipFraction).toBeCloseTo(1 / tokens, 9);
  expect(stats.kl).toBeCloseTo((Math.E - 2) / tokens, 6);
});

test("a positive advantage makes a trajectory more likely, a negative one less likely", async () => {
  await fc.assert(
    fc.asyncProperty(fc.nat(), async (seed) => {
      const trainer = toy(seed);
      const [entry] = batchOf(seed, trainer, 0);
      if (!entry) throw new Error("empty batch");
      const likelihood = () =>
        entry.trajectory.actions
          .flatMap(([from, to]) => trainer.logProbsOf(entry.trajectory.tokens, temperature).slice(from, to))
          .reduce((sum, value) => sum + value, 0);
      const before = likelihood();
      const gentle = { ...toyConfig(), optimizer: { ...toyOptimizer, learningRate: 0.01 } };
      await trainAlone(trainer, [[{ ...entry, advantage: 1 }]], gentle);
      const between = likelihood();
      expect(between).toBeGreaterThan(before);
      const logProbs = entry.trajectory.actions.flatMap(([from, to]) =>
        trainer.logProbsOf(entry.trajectory.tokens, temperature).slice(from, to),
      );
      await trainAlone(trainer, [[{ ...entry, trajectory: { ...entry.trajectory, logProbs }, advantage: -1 }]], gentle);
      expect(likelihood()).toBeLessThan(between);
    }),
    { numRuns: 50 },
  );
});

describe("refusals", () => {
  test("a KL term without a reference is refused", async () => {
    const trainer = toy(1);
    const step = trainAlone(
      trainer,
      [batchOf(1, trainer, 0)],
      toyConfig({ kl: { coefficient: 0.1, estimator: "k3" } }),
    );
    await expect(step).rejects.toSatisfy((error) => isMgrpoError(error, "config-invalid"));
  });

  test("a trajectory whose log-probs do not match its action spans is refused before any call to the trainer", async () => {
    const trainer = toy(1);
    const [entry] = batchOf(1, trainer, 0);
    if (!entry) throw new Error("empty batch");
    const damaged = { ...entry, trajectory: { ...entry.trajectory, logProbs: [-1] } };
    await expect(trainAlone(trainer, [[damaged]], toyConfig())).rejects.toSatisfy((error) =>
      isMgrpoError(error, "record-damaged"),
    );
    expect(trainer.calls).toEqual([]);
  });

  test("a loss of NaN halts the run and never reaches the optimizer", async () => {
    const trainer = toy(1);
    const batch = batchOf(1, trainer, 0);
    trainer.logits.fill(Number.NaN);
    await expect(trainAlone(trainer, [batch], toyConfig())).rejects.toSatisfy((error) =>
      isMgrpoError(error, "run-halted"),
    );
    expect(trainer.calls).not.toContain("optimizerStep");
  });
});

function expectClose(actual: readonly number[], expected: readonly number[]): void {
  expect(actual).toHaveLength(expected.length);
  actual.forEach((value, i) => {
    expect(value).toBeCloseTo(expected[i] ?? Number.NaN, 5);
  });
}
