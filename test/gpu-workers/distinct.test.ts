/** @file Equal sequences of a batch are computed once; gradient, loss and log-probs are still those of the whole batch. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Loss, TrainingSequence } from "../../core/ports.ts";
import { onDistinctSequences } from "../../gpu-workers/training/distinct.ts";
import { toy, V } from "../fakes/toy-batch.ts";

const CLIPPED = { kind: "clipped-token", clipLow: 0.2, clipHigh: 0.28 } as const;
const T = 6;

/** One of three texts, sampled off policy by one of two behavior policies, far enough away that ratios are clipped on either side. */
const sequence: fc.Arbitrary<TrainingSequence> = fc
  .record({
    text: fc.integer({ min: 0, max: 2 }),
    behavior: fc.integer({ min: 0, max: 1 }),
    weight: fc.constantFrom(0, 0.1, 0.7),
    advantage: fc.constantFrom(-1.3, -0.2, 0, 0.4, 2),
  })
  .map(({ text, behavior, weight, advantage }) => ({
    tokens: Array.from({ length: T }, (_, t) => (t * (text + 2) + text) % V),
    weights_T: Float32Array.from({ length: T }, (_, t) => (t < 2 ? 0 : weight)),
    advantages_T: new Float32Array(T).fill(advantage),
    behaviorLogProbs_T: Float32Array.from({ length: T }, (_, t) => -1.6 + 0.5 * Math.sin(3 * t + text + behavior)),
  }));

const batches = fc.array(sequence, { minLength: 1, maxLength: 12 });

test.each<Loss>([CLIPPED, { kind: "linear" }])("the update equals that of the whole batch: $kind", async (loss) => {
  await fc.assert(
    fc.asyncProperty(batches, async (batch) => {
      const [whole, distinct] = [toy(3), toy(3)];
      const one = await whole.forwardBackward(batch, loss, 1);
      const two = await onDistinctSequences(distinct).forwardBackward(batch, loss, 1);
      expect(two.loss).toBeCloseTo(one.loss, 5);
      expect(two.logProbs).toEqual(one.logProbs);
      distinct.gradient.forEach((value, i) => {
        expect(value).toBeCloseTo(whole.gradient[i] ?? Number.NaN, 5);
      });
      const different = new Set(distinct.sequencesSeen.map((tokens) => tokens.join())).size;
      // Each text has up to two behaviors, and each of these up to three signs.
      expect(distinct.sequencesSeen.length).toBeLessThanOrEqual(different * (loss.kind === "linear" ? 1 : 6));
    }),
  );
});

const sequenceOf = (advantage: number, behavior = -1): TrainingSequence => ({
  tokens: [1, 2, 3],
  weights_T: Float32Array.of(0, 0.25, 0.25),
  advantages_T: new Float32Array(3).fill(advantage),
  behaviorLogProbs_T: new Float32Array(3).fill(behavior),
});

test("only terms with the same ratio and advantages of one sign are added", async () => {
  const trainer = toy(1);
  const asked = [sequenceOf(1), sequenceOf(2), sequenceOf(-1), sequenceOf(-3), sequenceOf(1, -1.0000001)];
  await onDistinctSequences(trainer).forwardBackward(asked, CLIPPED, 1);
  expect(trainer.sequencesSeen).toHaveLength(3);
  // The sign of an advantage without weight does not matter.
  const masked = { ...sequenceOf(1), advantages_T: Float32Array.of(-5, 1, 1) };
  await onDistinctSequences(trainer).forwardBackward([sequenceOf(1), masked], CLIPPED, 1);
  expect(trainer.sequencesSeen).toHaveLength(4);
});

test("log-probs are computed once per distinct sequence and returned for each", async () => {
  const [trainer, plain] = [toy(1), toy(1)];
  const sequences = [
    [1, 2],
    [3, 4, 0],
    [1, 2],
    [1, 2, 3],
  ];
  const found = await onDistinctSequences(trainer).logProbs(sequences, 0.7);
  expect(found).toEqual(await plain.logProbs(sequences, 0.7));
  await onDistinctSequences(trainer).logProbs([], 0.7);
  expect(trainer.calls).toEqual(["logProbs", "logProbs"]);
});
