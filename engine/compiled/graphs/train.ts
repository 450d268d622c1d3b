/**
 * @file Full training with one graph per pass (whole-passes.ts): log-probs alone, or loss and gradient. B, T and R vary from run to run. Also the
 * lengths, positions and mask that layer-by-layer training (layered.ts) shares.
 */
import * as tf from "@tensorflow/tfjs-core";
import type { ModelConfig } from "../../checkpoint/config.ts";
import { EMBEDDING, headName, type Parameter, parameterLayout } from "../../checkpoint/parameters.ts";
import "../../model/gradients.ts";
import { causalAttention, type Mask } from "../../model/attention.ts";
import { transformer, type WeightTensors, weightNamed } from "../../model/transformer.ts";
import type { PolicyShape } from "../policy-shape.ts";
import { type Lengths, symbolic } from "../trace/dimensions.ts";
import { type TracedGraph, type TraceScope, traceGraph } from "../trace/trace.ts";
import { outputGradient } from "./gradient.ts";
import { gatherTensorRows, type HeadPass, headLogProbs } from "./head.ts";
import { declareLoss, type LossHead, type LossKind } from "./loss-head.ts";
import { declareWeights } from "./weights.ts";

/** Attention splits its queries into this many blocks. T is a multiple of it, and the graph's symbolic length is T / ATTENTION_BLOCKS. */
export const ATTENTION_BLOCKS = 4;
/** Share of the [T, T] scores that are computed: those of each block's queries with the keys up to its end. */
export const CAUSAL_SHARE = (ATTENTION_BLOCKS + 1) / (2 * ATTENTION_BLOCKS);

/** Lengths of a run on B rows of T tokens with R wanted predictions, at most `gathers` from one token. */
export const trainLengths = (batch: number, tokens: number, rows: number, gathers = 1): Lengths => ({
  batch,
  tokens: tokens / ATTENTION_BLOCKS,
  rows,
  gathers,
});

/** Parameters that the graphs read: the embedding only as a tied head, since its rows are gathered outside of the graphs. */
export function graphParameters(config: ModelConfig): Parameter[] {
  return parameterLayout(config).parameters.filter(({ name }) => name !== EMBEDDING || config.tied);
}

/** What each row of a run is. A tree has its own mask, and several tokens may be predicted after one of its tokens. */
export type RowKind = "sequences" | "trees";

/** Outputs: logProbs [R]. */
export const traceLogProbs =
  (kind: RowKind) =>
  ({ config }: PolicyShape): TracedGraph =>
    traceGraph("log-probs", (scope) => {
      const inputs = declareInputs(config, scope, kind);
      const weights = declareWeights(graphParameters(config), scope);
      const head = headInputs(config, inputs, weights, inputs.embedded);
      scope.output("logProbs", headLogProbs(...head).logProbs);
    });

/** Outputs: loss, logProbs [R], embeddedGradient [B, T, D], targetRows [R, D], and the gradient of each of `graphParameters`. */
export const traceTrain =
  (kind: RowKind, lossKind: LossKind = "token") =>
  ({ config }: PolicyShape): TracedGraph =>
    traceGraph("train", (scope) => {
      const inputs = declareInputs(config, scope, kind);
      const weights = declareWeights(graphParameters(config), scope);
      const lossOf = declareLoss(lossKind, scope);
      const names = Object.keys(weights);
      let pass: HeadPass | undefined;
      const stepLoss = (...values: tf.Tensor[]) => {
        const [embedded, ...parameters] = values;
        const named = Object.fromEntries(parameters.map((value, i) => [names[i] ?? "", value]));
        const result = lossOf(...headInputs(config, inputs, named, embedded as tf.Tensor3D));
        pass = result.pass;
        tf.keep(pass.logProbs);
        return result.loss;
      };
      const { value, grads } = tf.valueAndGrads(stepLoss)([inputs.embedded, ...Object.values(weights)]);
      if (!pass?.targetRows) throw new Error("the trace took no gradient of the head");
      scope.output("loss", value);
      scope.output("logProbs", pass.logProbs);
      scope.output("targetRows", pass.targetRows);
      const [embeddedGradient, ...gradients] = grads;
      scope.output("embeddedGradient", embeddedGradient as tf.Tensor);
      gradients.forEach((gradient, i) => {
        outputGradient(scope, names[i] ?? "", gradient);
      });
    });

/** Rotary angles [B, T, hd / 2], and the mask: [T, T], shared by all sequences, or [B, 1, T, T] for trees. */
export function declarePositions({ headWidth }: ModelConfig, scope: TraceScope, kind: RowKind) {
  const { batch } = symbolic;
  const tokens = ATTENTION_BLOCKS * symbolic.tokens;
  return {
    cos: scope.input("cos", [batch, tokens, headWidth / 2]),
    sin: scope.input("sin", [batch, tokens, headWidth / 2]),
    mask: scope.input<Mask>("mask", kind === "trees" ? [batch, 1, tokens, tokens] : [tokens, tokens]),
  };
}

interface ForwardInputs {
  readonly embedded: tf.Tensor3D;
  readonly cos: tf.Tensor;
  readonly sin: tf.Tensor;
  readonly mask: Mask;
  /** [R]: the rows of B * T to predict from, and their target tokens. */
  readonly rows: tf.Tensor1D;
  readonly targets: tf.Tensor1D;
  /** [B * T * gathers]: each row's indices among the R, padded with R. */
  readonly inverseRows: tf.Tensor1D;
  readonly inverseTemperature: tf.Scalar;
}

function declareInputs(config: ModelConfig, scope: TraceScope, kind: RowKind): ForwardInputs {
  const { batch } = symbolic;
  const tokens = ATTENTION_BLOCKS * symbolic.tokens;
  const gathers = kind === "trees" ? symbolic.gathers : 1;
  return {
    embedded: scope.input("embedded", [batch, tokens, config.width]),
    ...declarePositions(config, scope, kind),
    rows: scope.input("rows", [symbolic.rows], "int32"),
    targets: scope.input("targets", [symbolic.rows], "int32"),
    inverseRows: scope.input("inverseRows", [batch * tokens * gathers], "int32"),
    inverseTemperature: scope.input("inverseTemperature", []),
  };
}

function headInputs(
  config: ModelConfig,
  inputs: ForwardInputs,
  weights: WeightTensors,
  embedded: tf.Tensor3D,
): Parameters<LossHead> {
  const hidden = transformer(config, weights, embedded, inputs, causalAttention(config, inputs.mask, ATTENTION_BLOCKS));
  const head = weightNamed(weights, headName(config)) as tf.Tensor2D;
  const gathered = gatherTensorRows(hidden, inputs.rows, inputs.inverseRows);
  return [gathered, head, inputs.targets, inputs.inverseTemperature];
}
