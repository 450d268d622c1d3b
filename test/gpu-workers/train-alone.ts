/** @file A training step of a policy that only one agent uses. */
import type { Trainer } from "../../core/ports.ts";
import type { GradientTrainer } from "../../gpu-workers/busy.ts";
import type { TrainStepConfig } from "../../gpu-workers/training/objective-passes.ts";
import type { TrainedStep } from "../../gpu-workers/training/step-state.ts";
import { type Parts, trainStep } from "../../gpu-workers/training/train-step.ts";

export function trainAlone(
  trainer: GradientTrainer,
  parts: Parts,
  config: TrainStepConfig,
  reference?: Pick<Trainer, "logProbs">,
): Promise<TrainedStep> {
  return trainStep(trainer, parts, [{ agent: "", share: 1, config }], reference);
}
