/** @file Training sequences that lack what their loss needs. */
import { expect, test } from "vitest";
import type { Loss, TrainingSequence } from "../../core/ports.ts";
import { checkTrainingSequence } from "../../engine/model/input-checks.ts";

const clipped: Loss = { kind: "clipped-token", clipLow: 0.2, clipHigh: 0.2 };

test.each<[Loss, Partial<TrainingSequence>, string]>([
  [{ kind: "linear" }, { weights_T: new Float32Array(3) }, "needs weights_T of that length: it has 3 values"],
  [{ kind: "linear-entropy" }, {}, "needs entropyWeights_T of that length: it is missing"],
  [clipped, { advantages_T: new Float32Array(2) }, "needs behaviorLogProbs_T of that length: it is missing"],
])("%o: the error names the vector that is missing or has the wrong length", (loss, changes, message) => {
  const sequence = { tokens: [1, 2], weights_T: new Float32Array(2), ...changes };
  expect(() => checkTrainingSequence(sequence, loss)).toThrow(
    `a '${loss.kind}' training sequence of 2 tokens ${message}`,
  );
});
