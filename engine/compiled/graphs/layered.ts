/**
 * @file Graphs of layer-by-layer training: of an adapter, or of all weights (layered-passes.ts). The forward pass keeps the input of each layer,
 * the backward pass recomputes a layer before it takes its gradient (gradient checkpointing), and the head processes only the rows that its
 * caller passes. With `gradientCheckpointing: off`, the forward pass also keeps the outputs of a layer's linear layers (y:<weight>), except the
 * down projection's, which no gradient needs. The backward pass then recomputes no product with a weight except an adapter's A x. The gradients
 * are the same, bit for bit.
 *
 *   tokens --forward--> x:0 ... x:L      rows of x:L --head--> loss, logProbs, d loss / d rows      x:0 ... x:L-1, d x:L --backward--> d:<parameters>
 */
import * as tf from "@tensorflow/tfjs-core";
import { adapterLayout } from "../../checkpoint/adapter.ts";
import { EMBEDDING, FINAL_NORM, headName, type Parameter, parameterLayout } from "../../checkpoint/parameters.ts";
import "../../model/gradients.ts";
import { causalAttention } from "../../model/attention.ts";
import { decoder, finalNorm, type OnProduct, type WeightTensors, weightNamed } from "../../model/transformer.ts";
import { type PolicyShape, shapeParameters } from "../policy-shape.ts";
import { symbolic } from "../trace/dimensions.ts";
import { type TracedGraph, type TraceScope, traceGraph, traceWithShapes } from "../trace/trace.ts";
import { controlDependency } from "./control-dependency.ts";
import { outputGradient } from "./gradient.ts";
import { type HeadPass, headLogProbs } from "./head.ts";
import { outputKept, readKept } from "./kept-products.ts";
import { declareLoss, type LossHead, type LossKind } from "./loss-head.ts";
import { ATTENTION_BLOCKS, declarePositions, type RowKind } from "./train.ts";
import { declareWeights } from "./weights.ts";

/** Name of a layer's input; for layer L, of the last layer's output. */
export const layerInputName = (layer: number): string => `x:${layer}`;
/** Names of the gradients of `x:L` and, in full training, of `x:0`. */
export const LAST_GRADIENT = "d:x";
export const FIRST_GRADIENT = "d:x:0";

const TOKENS = ATTENTION_BLOCKS * symbolic.tokens;
const ROWS = symbolic.batch * TOKENS;

/** Inputs: tokens [B, T]; cos, sin, mask; weights. Outputs: x:0 ... x:L, each [B * T, D]; with `keeps` also the kept products. */
export const traceForward =
  (kind: RowKind, keeps: boolean) =>
  (shape: PolicyShape): TracedGraph =>
    traceGraph("layered-states", (scope) => {
      const { config } = shape;
      const weights = declareWeights(layerParameters(shape, [EMBEDDING]), scope);
      const tokens = scope.input<tf.Tensor2D>("tokens", [symbolic.batch, TOKENS], "int32");
      const layers = declareDecoder(shape, scope, kind, keeps ? outputKept(config, scope) : undefined);
      const embedded = tf.gather(weightNamed(weights, EMBEDDING), tokens);
      let x = tf.reshape(embedded, [ROWS, config.width]) as tf.Tensor2D;
      scope.output(layerInputName(0), x);
      for (let layer = 0; layer < config.layers; layer++) {
        x = layers(weights)(layer, x);
        scope.output(layerInputName(layer + 1), x);
      }
    });

/** Inputs: x [R, D], rows of x:L; targets [R]; inverseTemperature; weights. Outputs: logProbs [R]. */
export function traceHead(shape: PolicyShape): TracedGraph {
  return traceGraph("layered-head", (scope) => {
    const { weights, headInputs } = declareHead(shape, scope);
    const inputs = headInputs(declareHeadInput(shape, scope), weights);
    scope.output("logProbs", headLogProbs(...inputs).logProbs);
  });
}

/**
 * Inputs: those of `traceHead` and the loss rows. Outputs: loss, logProbs [R], d:x [R, D]; in full training also targetRows [R, D] and the
 * gradients of the final norm and the head.
 */
export const traceHeadLoss =
  (kind: LossKind) =>
  (shape: PolicyShape): TracedGraph =>
    traceGraph("layered-head-loss", (scope) => {
      const { weights, headInputs } = declareHead(shape, scope);
      const lossOf = declareLoss(kind, scope);
      const trained = shape.lora ? [] : Object.keys(weights);
      let pass: HeadPass | undefined;
      const chunkLoss = (x: tf.Tensor, ...values: tf.Tensor[]) => {
        const result = lossOf(...headInputs(x as tf.Tensor2D, { ...weights, ...named(trained, values) }));
        pass = result.pass;
        tf.keep(pass.logProbs);
        return result.loss;
      };
      const variables = [declareHeadInput(shape, scope), ...trained.map((name) => weightNamed(weights, name))];
      const { value, grads } = tf.valueAndGrads((...values) => chunkLoss(...(values as [tf.Tensor])))(variables);
      if (!pass?.targetRows) throw new Error("the trace took no gradient of the head");
      scope.output("loss", value);
      scope.output("logProbs", pass.logProbs);
      if (!shape.lora) scope.output("targetRows", pass.targetRows);
      const [lastGradient, ...gradients] = grads;
      scope.output(LAST_GRADIENT, lastGradient as tf.Tensor);
      gradients.forEach((gradient, i) => {
        outputGradient(scope, trained[i] ?? "", gradient);
      });
    });

/**
 * Inputs: x:0 ... x:L-1 and d:x [B * T, D]; cos, sin, mask; weights; with `keeps` also the kept products. Outputs: gradients of the layers'
 * trained parameters; in full training also d:x:0.
 */
export const traceBackward =
  (kind: RowKind, keeps: boolean) =>
  (shape: PolicyShape): TracedGraph =>
    traceWithShapes("layered-backward", (scope) => {
      const { config, lora } = shape;
      const weights = declareWeights(layerParameters(shape, []), scope);
      const layers = declareDecoder(shape, scope, kind, keeps ? readKept(config, scope, ROWS) : undefined);
      const states = Array.from({ length: config.layers }, (_, layer) =>
        scope.input<tf.Tensor2D>(layerInputName(layer), [ROWS, config.width]),
      );
      const { parameters } = lora ? adapterLayout(config, lora) : parameterLayout(config);
      let dy = scope.input<tf.Tensor2D>(LAST_GRADIENT, [ROWS, config.width]);
      let previous: readonly tf.Tensor[] = [];
      for (let layer = config.layers - 1; layer >= 0; layer--) {
        const names = parameters.map(({ name }) => name).filter((name) => name.includes(`.layers.${layer}.`));
        const output = (x: tf.Tensor, ...values: tf.Tensor[]) =>
          layers({ ...weights, ...named(names, values) })(layer, x as tf.Tensor2D);
        // Recomputation waits for all gradients of the layer above, so that only one layer's activations exist at a time.
        const x = controlDependency(states[layer] as tf.Tensor2D, previous);
        const variables = [x, ...names.map((name) => weightNamed(weights, name))];
        const [dx, ...gradients] = tf.grads((...values) => output(...(values as [tf.Tensor])))(variables, dy);
        gradients.forEach((gradient, i) => {
          outputGradient(scope, names[i] ?? "", gradient);
        });
        dy = dx as tf.Tensor2D;
        previous = [dx as tf.Tensor2D, ...gradients];
      }
      if (!lora) scope.output(FIRST_GRADIENT, dy);
    });

const named = (names: readonly string[], values: readonly tf.Tensor[]): WeightTensors =>
  Object.fromEntries(values.map((value, i) => [names[i] ?? "", value]));

/** Parameters of the layers, including the adapter's, and those named in `more`. */
function layerParameters(shape: PolicyShape, more: readonly string[]): Parameter[] {
  return shapeParameters(shape).filter(({ name }) => name.includes(".layers.") || more.includes(name));
}

/** Declares positions and mask; returns the decoder of [B, T] tokens for given weights. */
function declareDecoder({ config, lora }: PolicyShape, scope: TraceScope, kind: RowKind, onProduct?: OnProduct) {
  const { cos, sin, mask } = declarePositions(config, scope, kind);
  const attend = causalAttention(config, mask, ATTENTION_BLOCKS);
  return (weights: WeightTensors) =>
    decoder(config, weights, [symbolic.batch, TOKENS], { cos, sin }, attend, lora, onProduct);
}

const declareHeadInput = ({ config }: PolicyShape, scope: TraceScope) =>
  scope.input<tf.Tensor2D>("x", [symbolic.rows, config.width]);

function declareHead(shape: PolicyShape, scope: TraceScope) {
  const { config } = shape;
  const used = shapeParameters(shape).filter(({ name }) => name === FINAL_NORM || name === headName(config));
  const weights = declareWeights(used, scope);
  const targets = scope.input<tf.Tensor1D>("targets", [symbolic.rows], "int32");
  const inverseTemperature = scope.input<tf.Scalar>("inverseTemperature", []);
  const headInputs = (x: tf.Tensor2D, headWeights: WeightTensors): Parameters<LossHead> => {
    const head = weightNamed(headWeights, headName(config)) as tf.Tensor2D;
    return [finalNorm(config, headWeights, x), head, targets, inverseTemperature];
  };
  return { weights, headInputs };
}
