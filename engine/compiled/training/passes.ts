/** @file The forward and backward passes of one lane. `forwardBackward` adds to the gradient of the lane's trained state. */
import type { Trainer } from "../../../core/ports.ts";

export type Passes = Pick<Trainer, "logProbs" | "forwardBackward">;
