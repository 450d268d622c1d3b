/** @file A toy policy, and batches of two questions with log-probs near its own, for tests of a training step. */
import { AlgorithmConfig } from "../../core/contracts/algorithm-config.ts";
import type { Trajectory } from "../../core/contracts/rollout.ts";
import { tokenWeights } from "../../core/mgrpo/batch.ts";
import { stream } from "../../core/random.ts";
import type { TrainingEntry } from "../../gpu-workers/training/train-step.ts";
import { ToyTrainer } from "./toy-trainer.ts";

export const VOCABULARY_SIZE = 5;
export const temperature = 0.8;

export const toy = (seed: number) => {
  const random = stream("toy", seed);
  return new ToyTrainer(
    VOCABULARY_SIZE,
    Array.from({ length: VOCABULARY_SIZE * VOCABULARY_SIZE }, () => random.uniform() * 2 - 1),
  );
};

/** `weight`: the trajectory's share of its group's loss; `tokenWeight` is computed from it. */
export interface ToyEntry extends TrainingEntry {
  readonly weight: number;
}

/** Trajectories of two questions, off policy by up to `noise` / 2 in log-prob. Positions 0 and 1 are the prompt, position 4 is a tool response. */
export function batchOf(
  seed: number,
  policy: ToyTrainer,
  noise: number,
  algorithm: Partial<AlgorithmConfig> = {},
): ToyEntry[] {
  const random = stream("batch", seed);
  const entries = [0, 0, 0, 1, 1].map((group, i) => {
    const tokens = Array.from({ length: 6 + random.integer(6) }, () => random.integer(VOCABULARY_SIZE));
    const actions: [number, number][] = [
      [2, 4],
      [5, tokens.length],
    ];
    const logProbs_T = policy.logProbsOf(tokens, temperature);
    const current = actions.flatMap(([start, end]) => logProbs_T.slice(start, end));
    const trajectory: Trajectory = {
      agent: "main",
      version: 3,
      tokens,
      actions,
      logProbs: current.map((value) => Math.min(0, value + noise * (random.uniform() - 0.5))),
    };
    return {
      trajectory,
      group,
      groupStd: group === 0 ? 0.3 : 0.4,
      weight: group === 0 ? 1 / 3 : 1 / 2,
      advantage: [1.2, -0.9, 0.3, -1, 0][i] ?? 0,
    };
  });
  const weights = tokenWeights(
    entries.map(({ group, weight, trajectory }) => ({ group, weight, actionTokens: trajectory.logProbs.length })),
    AlgorithmConfig.parse(algorithm),
  );
  return entries.map((entry, i) => ({ ...entry, tokenWeight: weights[i] ?? 0 }));
}
