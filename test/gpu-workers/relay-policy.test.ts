/** @file The relay's policy, whose weights tests of whole runs compare: everything that a training step is given decides them. */
import { expect, test } from "vitest";
import { OptimizerConfig } from "../../core/contracts/agent-config.ts";
import type { Loss, TrainingSequence } from "../../core/ports.ts";
import { OPTIONS } from "../engine/tiny.ts";
import { baseFiles, relayEngine } from "../fixtures/relay/policy.ts";

const optimizer = OptimizerConfig.parse({});

interface Step {
  readonly sequence?: Partial<TrainingSequence>;
  readonly loss?: Loss;
  readonly temperature?: number;
  readonly learningRate?: number;
  readonly scale?: number;
}

/** The weights after one step. */
async function trained(step: Step): Promise<Uint8Array | undefined> {
  const { sequence = {}, loss, temperature = 1, learningRate = optimizer.learningRate, scale = 1 } = step;
  const given: TrainingSequence = {
    tokens: [1, 2],
    weights_T: Float32Array.of(0, 1),
    advantages_T: Float32Array.of(0, 0.5),
    behaviorLogProbs_T: Float32Array.of(0, -0.5),
    ...sequence,
  };
  const trainer = await relayEngine.openTrainer(baseFiles("main"), OPTIONS);
  await trainer.forwardBackward([given], loss ?? { kind: "clipped-token", clipLow: 0.2, clipHigh: 0.2 }, temperature);
  await trainer.optimizerStep({ ...optimizer, learningRate }, scale);
  return (await trainer.save()).get("model.safetensors");
}

const other = Float32Array.of(0, 2);
test.each<[string, Step]>([
  ["tokens", { sequence: { tokens: [1, 3] } }],
  ["loss weights of the tokens", { sequence: { weights_T: other } }],
  ["advantages", { sequence: { advantages_T: other } }],
  ["log-probs of the behavior policy", { sequence: { behaviorLogProbs_T: Float32Array.of(0, -0.6) } }],
  ["weights of the entropy bonus", { sequence: { entropyWeights_T: other } }],
  ["loss", { loss: { kind: "linear" } }],
  ["temperature", { temperature: 0.9 }],
  ["learning rate", { learningRate: 2e-3 }],
  ["scale of the gradient", { scale: 0.5 }],
])("equal steps give equal weights, and changing the %s changes them", async (_what, step) => {
  expect(await trained({})).toEqual(await trained({}));
  expect(await trained(step)).not.toEqual(await trained({}));
});

test("log-probs of -0 and 0 give the same weights: a stored -0 is read as 0", async () => {
  const after = (logProb: number) => trained({ sequence: { behaviorLogProbs_T: Float32Array.of(0, logProb) } });
  expect(await after(-0)).toEqual(await after(0));
});

test("a trainer that loads a saved version trains as the one that saved it does", async () => {
  const [first, second] = [
    await relayEngine.openTrainer(baseFiles("main"), OPTIONS),
    await relayEngine.openTrainer(baseFiles("main"), OPTIONS),
  ];
  const batch = [{ tokens: [1, 2], weights_T: Float32Array.of(0, 1) }];
  const step = async (trainer: typeof first) => {
    await trainer.forwardBackward(batch, { kind: "linear" }, 1);
    await trainer.optimizerStep(optimizer);
  };
  await step(first);
  await second.load(await first.save());
  await step(first);
  await step(second);
  expect(await second.save()).toEqual(await first.save());
});
