/** @file The gradient that a trainer has accumulated, from what it saves. */
import { expect } from "vitest";
import type { Trainer } from "../../core/ports.ts";
import { readSafetensors } from "./read-safetensors.ts";

/** With beta1 = 0, the first moment after one unclipped step is the gradient. */
const ADAM = { learningRate: 1e-9, beta1: 0, beta2: 0, epsilon: 1, weightDecay: 0, maxGradientNorm: 1e9 };

/** Flat, in the order of the trained parameters. Closes the trainer. */
export async function takeGradient(trainer: Trainer): Promise<Float32Array> {
  await trainer.optimizerStep(ADAM);
  const saved = await trainer.save();
  await trainer.close();
  const optimizer = saved.get("optimizer.safetensors") ?? expect.fail("no optimizer state");
  return readSafetensors(optimizer, "optimizer").tensors.get("m")?.values ?? expect.fail("no first moment");
}
