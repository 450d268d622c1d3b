/** @file A training step of a policy that only one agent uses, and settings for such a step of the toy policy. */
import { OptimizerConfig } from "../../core/contracts/agent-config.ts";
import { AlgorithmConfig } from "../../core/contracts/algorithm-config.ts";
import type { Trainer } from "../../core/ports.ts";
import type { GradientTrainer } from "../../gpu-workers/busy.ts";
import type { TrainStepConfig } from "../../gpu-workers/training/objective-passes.ts";
import type { TrainedStep } from "../../gpu-workers/training/step-state.ts";
import { type Parts, trainStep } from "../../gpu-workers/training/train-step.ts";
import { temperature } from "../fakes/toy-batch.ts";

export const toyOptimizer = OptimizerConfig.parse({ learningRate: 0.5, maxGradientNorm: 1e9 });
export const toyConfig = (options: Partial<AlgorithmConfig> = {}): TrainStepConfig => ({
  algorithm: AlgorithmConfig.parse(options),
  optimizer: toyOptimizer,
  entropyCoefficient: 0,
  temperature,
  minibatchStream: ["minibatches"],
});

export function trainAlone(
  trainer: GradientTrainer,
  parts: Parts,
  config: TrainStepConfig,
  reference?: Pick<Trainer, "logProbs">,
): Promise<TrainedStep> {
  return trainStep(trainer, parts, [{ agent: "", share: 1, config }], reference);
}
