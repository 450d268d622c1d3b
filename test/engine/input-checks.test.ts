/** @file Training sequences that lack what their loss needs, and sample requests that no engine can answer. */
import { expect, test } from "vitest";
import type { Loss, SampleRequest, TrainingSequence } from "../../core/ports.ts";
import { checkSampleRequest, checkTrainingSequence } from "../../engine/model/input-checks.ts";

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

const request: SampleRequest = {
  sequence: "s",
  tokens: [1, 2],
  maxTokens: 3,
  stop: [],
  sampling: { temperature: 1, topP: 1, topK: 0 },
  stream: ["s"],
};
const sampled = (sampling: Partial<SampleRequest["sampling"]>) => ({ sampling: { ...request.sampling, ...sampling } });

test.each<[Partial<Record<keyof SampleRequest, unknown>>, string]>([
  [{ maxTokens: Number.NaN }, "maxTokens: Invalid input: expected number, received NaN"],
  [{ maxTokens: undefined }, "maxTokens: Invalid input: expected number, received undefined"],
  [{ maxTokens: 1.5 }, "maxTokens: "],
  [{ maxTokens: -1 }, "maxTokens: "],
  [sampled({ temperature: -1 }), "sampling.temperature: "],
  [sampled({ temperature: Number.NaN }), "sampling.temperature: "],
  [sampled({ topP: 0 }), "sampling.topP: "],
  [sampled({ topK: 0.5 }), "sampling.topK: "],
  [{ tokens: [] }, "an empty prompt predicts nothing"],
])("a sample request with %o is refused", (changes, message) => {
  const changed = { ...request, ...changes } as SampleRequest;
  expect(() => checkSampleRequest(changed, 10, 10)).toThrow(
    expect.objectContaining({
      code: "config-invalid",
      message: expect.stringContaining(`sequence 's': ${message}`) as string,
    }),
  );
});

test("greedy requests and those for no tokens are accepted", () => {
  checkSampleRequest({ ...request, maxTokens: 0, ...sampled({ temperature: 0 }) }, 10, 10);
});
