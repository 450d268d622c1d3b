/**
 * @file What the engines refuse: empty sequences, sequences that lack what their loss needs, temperatures at which log-probs would be NaN,
 * invalid optimizer steps, and sample requests that no engine can answer.
 */
import { expect, test } from "vitest";
import { OptimizerConfig } from "../../core/contracts/agent-config.ts";
import type { Loss, PolicyEngine, SampleRequest, TrainingSequence } from "../../core/ports.ts";
import { compiledEngine } from "../../engine/compiled/engine.ts";
import { eagerEngine } from "../../engine/eager/engine.ts";
import { checkSampleRequest, checkSequences, checkTrainingSequence } from "../../engine/model/input-checks.ts";
import { openTrainedState } from "../../engine/model/trained-state.ts";
import { OPTIONS, tinyCheckpoint } from "./tiny.ts";

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

test.each<[unknown, string]>([
  [{ kind: "clipped" }, "loss: kind: must be linear, linear-entropy or clipped-token"],
  [{ kind: "clipped-token", clipHigh: 0.2 }, "loss: clipLow: must be a number of at least 0"],
  [{ kind: "clipped-token", clipLow: -0.2, clipHigh: 0.2 }, "loss: clipLow: must be a number of at least 0"],
  [{ kind: "clipped-token", clipLow: 0.2, clipHigh: Number.NaN }, "loss: clipHigh: must be a number of at least 0"],
])("a loss of %o is refused: it would compute nothing, NaN or another objective", (loss, message) => {
  const zeros = new Float32Array(2);
  const sequence = { tokens: [1, 2], weights_T: zeros, advantages_T: zeros, behaviorLogProbs_T: zeros };
  expect(() => checkTrainingSequence(sequence, loss as Loss)).toThrow(
    expect.objectContaining({ code: "config-invalid", message: expect.stringContaining(message) as string }),
  );
  checkTrainingSequence(sequence, { kind: "clipped-token", clipLow: 0.2, clipHigh: Number.POSITIVE_INFINITY });
});

test.each<[Loss, keyof TrainingSequence]>([
  [clipped, "weights_T"],
  [{ kind: "linear-entropy" }, "entropyWeights_T"],
])("%o: a negative value of %s is refused, except that of the first token, which nothing reads", (loss, name) => {
  const zeros = new Float32Array(3);
  const vectors = { weights_T: zeros, advantages_T: zeros, behaviorLogProbs_T: zeros, entropyWeights_T: zeros };
  const sequence = { tokens: [1, 2, 3], ...vectors };
  expect(() => checkTrainingSequence({ ...sequence, [name]: Float32Array.of(0, 1, -0.5) }, loss)).toThrow(
    `a '${loss.kind}' training sequence: ${name}[2] is -0.5, but weights of this loss are at least 0`,
  );
  checkTrainingSequence({ ...sequence, [name]: Float32Array.of(-1, 1, 0) }, loss);
});

test.each([1.5, -1, Number.NaN, undefined])(
  "a token of %s is refused as none, not as one of another model",
  (token) => {
    const sequences = [[3], [1, token as number]];
    expect(() => checkSequences(sequences, 10, 10)).toThrow(
      expect.objectContaining({
        code: "config-invalid",
        message: `tokens.1 is ${token}, which is no token id: ids are integers from 0 to 9`,
      }),
    );
  },
);

test.each<[string, PolicyEngine]>([
  ["compiled", compiledEngine],
  ["eager", eagerEngine],
])(
  "%s: an empty sequence is refused, and so is a temperature of 0 or NaN, at which log-probs would be NaN",
  async (_name, engine) => {
    const trainer = await engine.openTrainer(tinyCheckpoint(), OPTIONS);
    const sequence = { tokens: [1, 2], weights_T: new Float32Array(2) };
    const empty = { tokens: [], weights_T: new Float32Array() };
    const refusal = (message: string) => ({
      code: "config-invalid",
      message: expect.stringContaining(message) as string,
    });
    await expect(trainer.logProbs([[1], []], 1)).rejects.toMatchObject(refusal("a sequence has no tokens"));
    await expect(trainer.forwardBackward([sequence, empty], { kind: "linear" }, 1)).rejects.toMatchObject(
      refusal("a sequence has no tokens"),
    );
    for (const temperature of [0, Number.NaN]) {
      await expect(trainer.logProbs([[1, 2]], temperature)).rejects.toMatchObject(refusal("temperature: "));
      await expect(trainer.forwardBackward([sequence], { kind: "linear" }, temperature)).rejects.toMatchObject(
        refusal("temperature: "),
      );
    }
    await trainer.close();
  },
);

test.each<[string, Partial<Record<keyof OptimizerConfig, unknown>>, number]>([
  ["scale", {}, 1 / 0],
  ["scale", {}, Number.NaN],
  ["learningRate", { learningRate: Number.NaN }, 1],
  ["beta1", { beta1: 1 }, 1],
  ["beta2", { beta2: 1 }, 1],
  ["epsilon", { epsilon: 0 }, 1],
  ["weightDecay", { weightDecay: undefined }, 1],
  ["maxGradientNorm", { maxGradientNorm: 0 }, 1],
])("an optimizer step with an invalid %s is refused, and changes nothing", async (name, changes, scale) => {
  const state = openTrainedState(tinyCheckpoint());
  state.gradient[0] = 1;
  const before = structuredClone([state.weights, state.gradient]);
  const optimizer = { ...OptimizerConfig.parse({}), ...changes } as OptimizerConfig;
  await expect(state.optimizerStep(optimizer, scale)).rejects.toMatchObject({
    code: "config-invalid",
    message: expect.stringContaining(`optimizerStep: ${name}: `) as string,
  });
  expect([state.weights, state.gradient]).toEqual(before);
  expect(await state.optimizerStep({ ...OptimizerConfig.parse({}), learningRate: 0 })).toEqual({ gradientNorm: 1 });
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
  [{ stop: undefined }, "stop: "],
  [{ stop: [3] }, "stop.0: must be a list of token ids: write [[token]] for one token"],
  [{ stream: 7 }, "stream: "],
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

test("a request without the name of its random stream is refused, and later ones are answered", async () => {
  const sampler = await compiledEngine.openSampler(tinyCheckpoint(), { ...OPTIONS, slots: 1 });
  const nameless = { ...request, sequence: "nameless", stream: undefined } as unknown as SampleRequest;
  await expect(sampler.sample(nameless)).rejects.toMatchObject({
    code: "config-invalid",
    message: expect.stringContaining("sequence 'nameless': stream: ") as string,
  });
  expect((await sampler.sample(request)).tokens).toHaveLength(3);
  await sampler.close();
});
