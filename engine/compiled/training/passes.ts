/** @file The forward and backward passes of one lane. `forwardBackward` adds to the gradient of the lane's trained state. */
import type { Trainer } from "../../../core/ports.ts";

export interface Passes extends Pick<Trainer, "logProbs" | "forwardBackward"> {
  /** Whether the number of weighted predictions limits a tree in the plan of `forwardBackward` (batch-plan.ts). */
  readonly limitsPredictions: boolean;
}
