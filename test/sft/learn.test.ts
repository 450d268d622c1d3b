/** @file The loop of supervised training: what is trained on, when it ends, and the learning rate. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { OptimizerConfig } from "../../core/contracts/agent-config.ts";
import type { Trainer, TrainingSequence } from "../../core/ports.ts";
import type { Example } from "../../sft/example.ts";
import { heldOutLoss, imitate, learn, schedule, type TrainingPlan } from "../../sft/learn.ts";
import { NO_PROGRESS, type TrainingProgress } from "../../sft/progress.ts";

const PLAN: TrainingPlan = { tokens: 1000, learningRate: 1, warmUp: 0.1, evaluateEvery: 2, patience: 2 };
/** Ten tokens; the assistant's are at positions 3, 4 and 7. */
const EXAMPLE: Example = {
  tokens: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
  turns: [
    [3, 5],
    [7, 8],
  ],
};

/** Records its calls; every log-prob of the n-th `logProbs` call is minus the n-th loss. */
function fakeTrainer(losses: readonly number[] = []) {
  const batches: (readonly TrainingSequence[])[] = [];
  const rates: number[] = [];
  let evaluation = 0;
  const trainer: Trainer = {
    async logProbs(sequences) {
      const loss = losses[evaluation++] ?? 0;
      return sequences.map(({ length }) => new Float32Array(length).fill(-loss));
    },
    async forwardBackward(batch) {
      batches.push(batch);
      return { loss: 1, logProbs: [] };
    },
    async optimizerStep({ learningRate }: OptimizerConfig) {
      rates.push(learningRate);
      return { gradientNorm: 0 };
    },
    save: async () => new Map(),
    load: async () => {},
    close: async () => {},
  };
  return { trainer, batches, rates };
}

const endless = function* () {
  for (;;) yield [EXAMPLE];
};

async function trained(losses: readonly number[], plan: TrainingPlan = PLAN) {
  const { trainer, batches, rates } = fakeTrainer(losses);
  const saved: TrainingProgress[] = [];
  const material = { batches: endless(), heldOut: [EXAMPLE] };
  const progress = await learn(trainer, material, plan, NO_PROGRESS, {
    onCheckpoint: async (checkpoint) => void saved.push(checkpoint),
  });
  return { progress, saved, batches, rates };
}

test("only the assistant's tokens have weight, each the same over the whole batch", async () => {
  const { trainer, batches } = fakeTrainer();
  const short: Example = { tokens: [1, 2, 3], turns: [[2, 3]] };
  await imitate(trainer, [EXAMPLE, short], 1);
  // 2 + 1 + 1 assistant tokens: -1/4 each.
  const weights = batches[0]?.map(({ weights_T }) => [...weights_T]);
  expect(weights).toEqual([
    [0, 0, 0, -0.25, -0.25, 0, 0, -0.25, 0, 0],
    [0, 0, -0.25],
  ]);
});

test("the held-out loss is the mean over the assistant's tokens of all examples", async () => {
  const { trainer } = fakeTrainer();
  const values = [Float32Array.from([9, 9, 9, -1, -2, 9, 9, -3, 9, 9]), Float32Array.from([9, 9, -6])];
  const loss = await heldOutLoss({ ...trainer, logProbs: async () => values }, [
    EXAMPLE,
    { tokens: [1, 2, 3], turns: [[2, 3]] },
  ]);
  // (1 + 2 + 3 + 6) / 4
  expect(loss).toBe(3);
});

test.each([Number.NaN, Number.POSITIVE_INFINITY])("a held-out loss of %s stops the training", async (loss) => {
  await expect(trained([5, loss])).rejects.toMatchObject({
    code: "run-halted",
    message: `the held-out loss is ${loss}: lower the learning rate, or check the weights of the model`,
  });
});

test("training ends after `patience` held-out losses without a new minimum, and the best step is kept", async () => {
  // Before training 5; after 2, 4, 6, 8 steps: 3, 2, 2.5, 2.
  const { progress, saved } = await trained([5, 3, 2, 2.5, 2, 1]);
  expect(progress).toMatchObject({ best: 4, ended: "patience" });
  expect(progress.evaluations.map(({ step, loss }) => [step, loss])).toEqual([
    [0, 5],
    [2, 3],
    [4, 2],
    [6, 2.5],
    [8, 2],
  ]);
  expect(saved.map(({ losses }) => losses.length)).toEqual([2, 4, 6, 8]);
});

test("training ends when the tokens are spent, with an evaluation even if none is due", async () => {
  const { progress, saved } = await trained([5, 4, 3], { ...PLAN, tokens: 25 });
  // Batches of ten tokens: the third reaches 25.
  expect(progress).toMatchObject({ tokens: 30, best: 3, ended: "tokens" });
  expect(saved.map(({ losses }) => losses.length)).toEqual([2, 3]);
});

test("training that is resumed from any checkpoint takes the same steps at the same learning rates", async () => {
  const whole = await trained([5, 4, 3, 2, 1], { ...PLAN, tokens: 80 });
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...whole.saved), async (from) => {
      const done = from.losses.length;
      const { trainer, rates } = fakeTrainer([5, 4, 3, 2, 1].slice(from.evaluations.length));
      const material = { batches: endless(), heldOut: [EXAMPLE] };
      const progress = await learn(trainer, material, { ...PLAN, tokens: 80 }, from, { onCheckpoint: async () => {} });
      expect(progress).toEqual(whole.progress);
      expect(rates).toEqual(whole.rates.slice(done));
    }),
  );
});

test("the learning rate rises linearly, then falls along half a cosine to a tenth of its peak", () => {
  // A step is a 20th of the training, and the warm-up takes two steps: 1/3 and 2/3 of the peak, then the peak.
  expect(schedule(0, 0.1, 0.05)).toBeCloseTo(1 / 3);
  expect(schedule(0.05, 0.1, 0.05)).toBeCloseTo(2 / 3);
  expect(schedule(0.1, 0.1, 0.05)).toBeCloseTo(1);
  // Half of the way down: (1 + 0.1) / 2.
  expect(schedule(0.55, 0.1, 0.05)).toBeCloseTo(0.55);
  expect(schedule(1, 0.1, 0.05)).toBeCloseTo(0.1);
});

test("a training run of one step has a learning rate above 0; with `startsAtZero`, as for base models, the rate starts at 0", async () => {
  // The whole training in one step: 1 / (0.1 + 1) of the peak.
  const { progress, rates } = await trained([5, 4], { ...PLAN, tokens: 10 });
  expect(progress).toMatchObject({ ended: "tokens", losses: [1] });
  expect(rates).toEqual([expect.closeTo(1 / 1.1)]);
  const base = await trained([], { ...PLAN, tokens: 100, warmUp: 0.2, patience: 9, startsAtZero: true });
  expect(base.rates.slice(0, 3)).toEqual([0, 0.5, 1]);
});
