/** @file The shares of tokens that the correction of stale rollouts masks and truncates, and the KL divergence between sampler and trainer, by hand. */
import { expect, test } from "vitest";
import { OptimizerConfig } from "../../core/contracts/agent-config.ts";
import { AlgorithmConfig } from "../../core/contracts/algorithm-config.ts";
import type { TrainingEntry } from "../../gpu-workers/training/train-step.ts";
import { ToyTrainer } from "../fakes/toy-trainer.ts";
import { trainAlone } from "./train-alone.ts";

/** The size of the vocabulary. */
const V = 5;
/** All logits are 0, so the trainer gives every token this probability. */
const P = 1 / V;

/** The ratio trainer / sampler of each token: six of one trajectory, four of the other. */
const RATIOS = [
  [1, 4, 2, 0.25, 1, 1],
  [2, 1, 4, 1.25],
];

/** One question. The prompt is one token, and all others are sampled. */
const batch: TrainingEntry[] = RATIOS.map((ratios, i) => ({
  trajectory: {
    agent: "main",
    version: 0,
    tokens: [0, ...ratios.map((_, t) => t % V)],
    actions: [[1, 1 + ratios.length]],
    logProbs: ratios.map((ratio) => Math.log(P / ratio)),
  },
  group: 0,
  groupStd: 0.5,
  tokenWeight: 0.1,
  advantage: i === 0 ? 1 : -1,
}));

async function statsWith(correction: Partial<AlgorithmConfig>) {
  const algorithm = AlgorithmConfig.parse(correction);
  const optimizer = OptimizerConfig.parse({ learningRate: 0.5 });
  const rest = { entropyCoefficient: 0, temperature: 1, minibatchStream: ["minibatches"] };
  return (await trainAlone(new ToyTrainer(V), [batch], { algorithm, optimizer, ...rest })).stats;
}

const ratioMask = { low: 0.5, high: 3 };

test.each([
  // 4, 0.25 and 4 are outside the mask; of the others, 2 and 2 exceed the cap.
  [{ ratioMask, tisCap: 1.5 }, 3 / 10, 2 / 10],
  // Without a mask, 4, 2, 2 and 4 exceed the cap.
  [{ tisCap: 1.5 }, undefined, 4 / 10],
  [{ ratioMask }, 3 / 10, undefined],
  [{}, undefined, undefined],
])(
  "%o masks and truncates these shares of ten tokens: %s, %s; the KL divergence includes masked tokens",
  async (correction, masked, truncated) => {
    const stats = await statsWith(correction);
    const nearly = (share: number | undefined) => (share === undefined ? undefined : expect.closeTo(share, 9));
    expect([stats.maskedFraction, stats.truncatedFraction]).toEqual([masked, truncated].map(nearly));
    // The sum of r - 1 - log r over all ten tokens. Four ratios are 1, which adds 0.
    const terms = 2 * (3 - Math.log(4)) + 2 * (1 - Math.log(2)) + (-0.75 - Math.log(0.25)) + (0.25 - Math.log(1.25));
    expect(stats.kl).toBeCloseTo(terms / 10, 6);
  },
);
