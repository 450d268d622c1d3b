/** @file The forward and backward passes of one lane, over the micro-batches of a plan (batch-plan.ts). */
import type { ForwardBackward, Loss, TrainingSequence } from "../../../core/ports.ts";
import type { Sequences } from "../../model/prefix-tree.ts";
import type { MicroBatch } from "./batch-plan.ts";

export interface Passes {
  /** Whether the number of predictions limits a micro-batch. */
  readonly limitsPredictions: boolean;
  /** As Trainer's, for the sequences that are in the plan. */
  logProbs(sequences: Sequences, temperature: number, plan: readonly MicroBatch[]): Promise<Float32Array[]>;
  /** As Trainer's, for the sequences that are in the plan. Adds to the flat `gradient`, in the layout of the trained parameters. */
  forwardBackward(
    batch: readonly TrainingSequence[],
    loss: Loss,
    temperature: number,
    plan: readonly MicroBatch[],
    gradient: Float32Array,
  ): Promise<ForwardBackward>;
}
