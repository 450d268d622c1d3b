/** @file The head together with a loss of its rows: what a training graph differentiates. */
import type * as tf from "@tensorflow/tfjs-core";
import type { Loss } from "../../../core/ports.ts";
import { type LossRows, loss } from "../../model/losses.ts";
import { symbolic } from "../trace/dimensions.ts";
import type { TraceScope } from "../trace/trace.ts";
import { entropyHeadLoss } from "./entropy-head.ts";
import { type HeadPass, headLogProbs } from "./head.ts";

/** The loss of rows of hidden states [R, D]. */
export type LossHead = (
  hidden: tf.Tensor2D,
  head: tf.Tensor2D,
  targets: tf.Tensor1D,
  inverseTemperature: tf.Scalar,
) => { readonly loss: tf.Scalar; readonly pass: HeadPass };

/** `token`: linear and clipped-token, which share a graph. `entropy`: linear-entropy. Part of a session's name. */
export type LossKind = "token" | "entropy";

export const lossKind = ({ kind }: Loss): LossKind => (kind === "linear-entropy" ? "entropy" : "token");

/** Declares the rows of the loss as inputs. */
export function declareLoss(kind: LossKind, scope: TraceScope): LossHead {
  const row = (name: string) => scope.input<tf.Tensor1D>(name, [symbolic.rows]);
  if (kind === "token") {
    const rows: LossRows = {
      linearWeights: row("linearWeights"),
      clippedWeights: row("clippedWeights"),
      advantages: row("advantages"),
      behaviorLogProbs: row("behaviorLogProbs"),
      lowest: scope.input("lowest", []),
      highest: scope.input("highest", []),
    };
    return (...inputs) => {
      const pass = headLogProbs(...inputs);
      return { loss: loss(pass.logProbs, rows), pass };
    };
  }
  const rows = { linearWeights: row("linearWeights"), entropyWeights: row("entropyWeights") };
  return (...inputs) => entropyHeadLoss(...inputs, rows);
}
