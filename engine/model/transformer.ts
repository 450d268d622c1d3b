/**
 * @file The model: a Llama- or Qwen-style decoder in tfjs operations, between the embedding and the output head. It is written once: the
 * eager engine runs it and the compiled engine traces it. Config and weights decide what differs between families (query/key norms, projection
 * biases). Attention is a parameter, since training attends within a row and sampling attends to a KV cache.
 */
import * as tf from "@tensorflow/tfjs-core";
import type { LoraConfig } from "../../core/contracts/lora.ts";
import { adapterNames } from "../checkpoint/adapter.ts";
import type { ModelConfig } from "../checkpoint/config.ts";
import { biasOf, FINAL_NORM, layerNames } from "../checkpoint/parameters.ts";
import { rmsNorm, rotate } from "./kernels.ts";

/** Parameters [out, in] by Hugging Face name, and an adapter's by PEFT name. */
export type WeightTensors = Readonly<Record<string, tf.Tensor>>;

/** cos and sin [B, T, hd / 2] of each token's position (positions.ts). */
export interface RotaryAngles {
  readonly cos: tf.Tensor;
  readonly sin: tf.Tensor;
}

/** One layer's heads before attention: q [B, T, H * hd], scaled by 1/sqrt(hd); k and v [B, T, KV * hd]. */
export interface Heads {
  readonly layer: number;
  readonly q: tf.Tensor3D;
  readonly k: tf.Tensor3D;
  readonly v: tf.Tensor3D;
}

/** Returns each query head's output: [B * T, H * hd]. */
export type Attend = (heads: Heads) => tf.Tensor2D;

/** Called with the output [B * T, out] of each linear layer and the name of its weight. Returns the tensor to use in place of the output. */
export type OnProduct = (name: string, product: tf.Tensor2D) => tf.Tensor2D;

/** A linear layer's weight, or the A [rank, in] or B [out, rank] of its adapter. */
export type Factor = "weight" | "A" | "B";

/** x [N, in] and w [out, in] -> x w^T [N, out]. */
export type Product = (x: tf.Tensor2D, w: tf.Tensor2D, factor: Factor) => tf.Tensor2D;

const plainProduct: Product = (x, w) => tf.matMul(x, w, false, true);

/** Embedded tokens [B, T, D] -> hidden states [B * T, D] after the final norm. */
export function transformer(
  config: ModelConfig,
  weights: WeightTensors,
  embedded: tf.Tensor3D,
  angles: RotaryAngles,
  attend: Attend,
  lora: LoraConfig | null = null,
  multiply: Product = plainProduct,
): tf.Tensor2D {
  const [batch, tokens] = embedded.shape;
  let x = tf.reshape(embedded, [batch * tokens, config.width]) as tf.Tensor2D;
  const run = decoder(config, weights, [batch, tokens], angles, attend, lora, undefined, multiply);
  for (let layer = 0; layer < config.layers; layer++) x = run(layer, x);
  return finalNorm(config, weights, x);
}

export const finalNorm = (config: ModelConfig, weights: WeightTensors, x: tf.Tensor2D): tf.Tensor2D =>
  rmsNorm(x, weightNamed(weights, FINAL_NORM), config.epsilon);

/** Returns a function that runs one layer on [B, T] tokens: x [B * T, D] -> [B * T, D]. */
export function decoder(
  config: ModelConfig,
  weights: WeightTensors,
  [batch, tokens]: readonly [number, number],
  angles: RotaryAngles,
  attend: Attend,
  lora: LoraConfig | null,
  onProduct: OnProduct = (_name, product) => product,
  multiply: Product = plainProduct,
): (layer: number, x: tf.Tensor2D) => tf.Tensor2D {
  const weight = (name: string) => weightNamed(weights, name);
  const linear = (x: tf.Tensor2D, name: string): tf.Tensor2D => onProduct(name, linearProduct(x, name));
  const linearProduct = (x: tf.Tensor2D, name: string): tf.Tensor2D => {
    const product = multiply(x, weight(name) as tf.Tensor2D, "weight");
    const bias = weights[biasOf(name)];
    const biased = bias ? tf.add<tf.Tensor2D>(product, bias) : product;
    const { down, up } = adapterNames(name);
    if (!lora || !weights[down]) return biased;
    const low = multiply(x, weight(down) as tf.Tensor2D, "A");
    const scaled = tf.mul<tf.Tensor2D>(low, lora.alpha / lora.rank);
    return tf.add(biased, multiply(scaled, weight(up) as tf.Tensor2D, "B"));
  };
  // Attention's 1/sqrt(hd) is applied to the queries' cosines and sines, which are smaller arrays than the queries.
  const scale = 1 / Math.sqrt(config.headWidth);
  const queryAngles = { cos: tf.mul(angles.cos, scale), sin: tf.mul(angles.sin, scale) };
  const heads = (input: tf.Tensor2D, projection: string, norm: string, count: number, { cos, sin }: RotaryAngles) => {
    const projected = tf.reshape(linear(input, projection), [batch * tokens * count, config.headWidth]) as tf.Tensor2D;
    const normed = config.queryKeyNorm ? rmsNorm(projected, weight(norm), config.epsilon) : projected;
    return rotate(tf.reshape(normed, [batch, tokens, count * config.headWidth]), cos, sin, count);
  };
  return (layer, input) => {
    const name = layerNames(layer);
    const h = rmsNorm(input, weight(name.attentionNorm), config.epsilon);
    const attended = attend({
      layer,
      q: heads(h, name.query, name.queryNorm, config.heads, queryAngles),
      k: heads(h, name.key, name.keyNorm, config.kvHeads, angles),
      v: tf.reshape(linear(h, name.value), [batch, tokens, config.kvHeads * config.headWidth]),
    });
    const x = tf.add<tf.Tensor2D>(input, linear(attended, name.output));
    const g = rmsNorm(x, weight(name.ffnNorm), config.epsilon);
    const ffn = swiGlu(linear(g, name.gate), linear(g, name.up));
    return tf.add<tf.Tensor2D>(x, linear(ffn, name.down));
  };
}

export function weightNamed(weights: WeightTensors, name: string): tf.Tensor {
  const weight = weights[name];
  if (!weight) throw new Error(`no weight named ${name}`);
  return weight;
}

/** silu(gate) * up, with a hand-written gradient that makes fewer passes over memory than automatic differentiation. */
function swiGlu(gate: tf.Tensor2D, up: tf.Tensor2D): tf.Tensor2D {
  const operation = tf.customGrad<tf.Tensor>((...inputs) => {
    const [g, u, save] = inputs as [tf.Tensor, tf.Tensor, tf.GradSaveFunc];
    const sigmoid = tf.sigmoid(g);
    const silu = tf.mul(g, sigmoid);
    save([g, u, sigmoid, silu]);
    return {
      value: tf.mul(silu, u),
      gradFunc: (dy, saved) => {
        const [gate_, up_, sigmoid_, silu_] = saved as [tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor];
        // d silu / d gate = sigmoid * (1 + gate - silu)
        const slope = tf.mul(sigmoid_, tf.add(tf.sub(gate_, silu_), 1));
        return [tf.mul(tf.mul(dy, up_), slope), tf.mul(dy, silu_)];
      },
    };
  });
  return operation(gate, up) as tf.Tensor2D;
}
