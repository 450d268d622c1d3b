/** @file A training step of a policy that agents share, compared with the steps that each agent would take alone. */
import { describe, expect, test } from "vitest";
import { OptimizerConfig } from "../../core/contracts/agent-config.ts";
import { AlgorithmConfig } from "../../core/contracts/algorithm-config.ts";
import type { TrainStepConfig } from "../../gpu-workers/training/objective-passes.ts";
import { type TrainingEntry, trainStep } from "../../gpu-workers/training/train-step.ts";
import { batchOf, temperature, toy } from "../fakes/toy-batch.ts";
import type { ToyTrainer } from "../fakes/toy-trainer.ts";
import { trainAlone } from "./train-alone.ts";

const SEED = 3;
const optimizer = OptimizerConfig.parse({ learningRate: 0.5, maxGradientNorm: null });

const configOf = (agent: string, changes: object = {}, own: Partial<TrainStepConfig> = {}): TrainStepConfig => ({
  algorithm: AlgorithmConfig.parse(changes),
  optimizer,
  entropyCoefficient: 0,
  temperature,
  minibatchStream: ["test", agent],
  ...own,
});

const entriesOf = (agent: string, seed: number): TrainingEntry[] =>
  batchOf(seed, toy(SEED), 0.5).map((entry) => ({ ...entry, trajectory: { ...entry.trajectory, agent } }));

const MAIN = entriesOf("main", 1);
/** The searcher was called for the second question only. */
const SEARCHER = entriesOf("searcher", 2)
  .filter(({ group }) => group === 1)
  .map((entry, i) => ({ ...entry, advantage: [1, -1][i] ?? 0 }));

/** What the step adds to the logits: with a single optimizer step, minus the learning rate times the gradient. */
async function movedBy(step: (trainer: ToyTrainer) => Promise<unknown>): Promise<number[]> {
  const [before, trainer] = [toy(SEED), toy(SEED)];
  await step(trainer);
  return [...trainer.logits].map((logit, i) => logit - (before.logits[i] ?? 0));
}

const norm = (values: readonly number[]) => Math.hypot(...values);

const sharing = (shares: readonly [number, number], main = configOf("main"), searcher = configOf("searcher")) => [
  { agent: "main", share: shares[0], config: main },
  { agent: "searcher", share: shares[1], config: searcher },
];

function expectClose(found: readonly number[], expected: readonly number[]): void {
  for (const [i, value] of expected.entries()) expect(found[i]).toBeCloseTo(value, 6);
}

describe("the gradient of a shared policy", () => {
  test.each([
    ["halves", [0.5, 0.5]],
    ["three quarters and one quarter", [0.75, 0.25]],
  ] as const)("is the sum of the agents' own gradients, weighted by their shares: %s", async (_, shares) => {
    const alone = [
      await movedBy((trainer) => trainAlone(trainer, [MAIN], configOf("main"))),
      await movedBy((trainer) => trainAlone(trainer, [SEARCHER], configOf("searcher"))),
    ];
    // One part per group, with the trajectories of every agent that the group has.
    const parts = [0, 1].map((group) => [...SEARCHER, ...MAIN].filter((entry) => entry.group === group));
    const together = await movedBy((trainer) => trainStep(trainer, parts, sharing(shares)));
    expectClose(
      together,
      together.map((_move, i) => shares[0] * (alone[0]?.[i] ?? 0) + shares[1] * (alone[1]?.[i] ?? 0)),
    );
  });

  test("is applied in one optimizer step, after passes with each agent's own settings", async () => {
    const trainer = toy(SEED);
    const own = configOf("searcher", { ratio: "sequence-mean" }, { temperature: 1.3 });
    await trainStep(trainer, [[...MAIN, ...SEARCHER]], sharing([0.5, 0.5], configOf("main"), own));
    expect(trainer.calls).toEqual([
      "logProbs",
      "forwardBackward:clipped-token",
      "gradientNorm",
      "forwardBackward:linear",
      "gradientNorm",
      "optimizerStep",
    ]);
    expect([...trainer.temperatures].sort()).toEqual([temperature, 1.3]);
  });

  test("is one agent's own, weighted by its share, if the other was not called", async () => {
    const alone = await movedBy((trainer) => trainAlone(trainer, [MAIN], configOf("main")));
    const together = await movedBy((trainer) => trainStep(trainer, [MAIN], sharing([0.5, 0.5])));
    expectClose(
      together,
      alone.map((move) => move / 2),
    );
  });

  test("is applied in one step per minibatch and epoch; the main agent's minibatches are the same as when it trains alone", async () => {
    const trainer = toy(SEED);
    const settings = { minibatches: 3, epochs: 2 };
    // The searcher has two trajectories: it fills two of the three minibatches.
    const shared = sharing([0.5, 0.5], configOf("main", settings), configOf("searcher", settings));
    const { stats } = await trainStep(trainer, [[...MAIN, ...SEARCHER]], shared);
    expect(trainer.calls.filter((call) => call === "optimizerStep")).toHaveLength(6);
    expect(Number.isFinite(stats.gradientNorm)).toBe(true);
    const first = toy(SEED);
    await trainAlone(first, [MAIN], configOf("main", settings));
    const own = new Set(MAIN.map(({ trajectory }) => String(trajectory.tokens)));
    expect(trainer.sequencesSeen.filter((tokens) => own.has(String(tokens)))).toEqual(first.sequencesSeen);
  });
});

describe("minibatches of agents with batches of different sizes", () => {
  test("have the whole batch's gradient as their mean, to first order", async () => {
    const small = { optimizer: { ...optimizer, learningRate: 1e-6 } };
    const settings = { minibatches: 3 };
    const shared = sharing([0.5, 0.5], configOf("main", settings, small), configOf("searcher", settings, small));
    const split = await movedBy((trainer) => trainStep(trainer, [[...MAIN, ...SEARCHER]], shared));
    const whole = await movedBy((trainer) =>
      trainStep(
        trainer,
        [[...MAIN, ...SEARCHER]],
        sharing([0.5, 0.5], configOf("main", {}, small), configOf("searcher", {}, small)),
      ),
    );
    // Each of the three minibatches estimates the whole batch's gradient: three steps move three times as far.
    for (const [i, move] of split.entries()) expect(move / 3e-6).toBeCloseTo((whole[i] ?? 0) / 1e-6, 3);
  });
});

describe("the record of a shared step", () => {
  test("has each agent's share, loss, gradient norm, entropy, KL and trajectories, and the loss, gradient norm and trajectories of all", async () => {
    const trainer = toy(SEED);
    const { stats, perAgent } = await trainStep(trainer, [[...MAIN, ...SEARCHER]], sharing([0.75, 0.25]));
    const alone = {
      main: await trainAlone(toy(SEED), [MAIN], configOf("main")),
      searcher: await trainAlone(toy(SEED), [SEARCHER], configOf("searcher")),
    };
    for (const [agent, share] of [
      ["main", 0.75],
      ["searcher", 0.25],
    ] as const) {
      const own = alone[agent].stats;
      expect(perAgent?.[agent]?.share).toBe(share);
      expect(perAgent?.[agent]?.loss).toBeCloseTo(own.loss, 6);
      expect(perAgent?.[agent]?.gradientNorm).toBeCloseTo(share * own.gradientNorm, 6);
      expect(perAgent?.[agent]).toMatchObject({ entropy: own.entropy, trajectories: own.trajectories, kl: own.kl });
    }
    expect(stats.loss).toBeCloseTo(0.75 * alone.main.stats.loss + 0.25 * alone.searcher.stats.loss, 6);
    expect(stats.trajectories).toBe(MAIN.length + SEARCHER.length);
    const moved = await movedBy((other) => trainStep(other, [[...MAIN, ...SEARCHER]], sharing([0.75, 0.25])));
    expect(stats.gradientNorm).toBeCloseTo(norm(moved) / optimizer.learningRate, 6);
  });

  test("has null for a gradient norm that the engine cannot measure, and omits an agent without trajectories", async () => {
    const { logProbs, forwardBackward, optimizerStep } = toy(SEED);
    const trainer = toy(SEED);
    const blind = {
      logProbs: logProbs.bind(trainer),
      forwardBackward: forwardBackward.bind(trainer),
      optimizerStep: optimizerStep.bind(trainer),
    };
    const { perAgent } = await trainStep(blind, [MAIN], sharing([0.5, 0.5]));
    expect(perAgent?.["main"]?.gradientNorm).toBeNull();
    expect(Object.keys(perAgent ?? {})).toEqual(["main"]);
  });

  test("has no statistics per agent for one agent's policy; its entropy is the sampled tokens' mean negative log-prob", async () => {
    const result = await trainStep(toy(SEED), [MAIN], [{ agent: "main", share: 1, config: configOf("main") }]);
    expect(result.perAgent).toBeUndefined();
    const logProbs = MAIN.flatMap(({ trajectory }) => [...trajectory.logProbs]);
    const mean = logProbs.reduce((sum, value) => sum + value, 0) / logProbs.length;
    expect(result.stats.entropy).toBeCloseTo(-mean, 10);
  });

  test("says that nothing was trained if the batch has no signal", async () => {
    const zeroAdvantage = [...MAIN, ...SEARCHER].map((entry) => ({ ...entry, advantage: 0 }));
    const trainer = toy(SEED);
    const { trained } = await trainStep(trainer, [zeroAdvantage], sharing([0.5, 0.5]));
    expect(trained).toBe(false);
    expect(trainer.calls).toEqual([]);
  });
});
