/**
 * @file The outputs of a layer's linear layers as outputs of the forward pass and inputs of the backward pass, y:<weight>. With them, the
 * backward pass recomputes no product with a weight except an adapter's A x. The gradient has the same bits.
 */
import * as tf from "@tensorflow/tfjs-core";
import type { ModelConfig } from "../../checkpoint/config.ts";
import { layerNames } from "../../checkpoint/parameters.ts";
import type { OnProduct } from "../../model/transformer.ts";
import type { TraceScope } from "../trace/trace.ts";

export interface KeptProduct {
  /** The weight's name. */
  readonly name: string;
  readonly width: number;
}

export const keptProductName = (weight: string): string => `y:${weight}`;

/** The kept products of one layer: all but the down projection's, which no gradient needs. */
export function keptProducts(
  { width, heads, kvHeads, headWidth, ffnWidth }: ModelConfig,
  layer: number,
): KeptProduct[] {
  const name = layerNames(layer);
  return [
    { name: name.query, width: heads * headWidth },
    { name: name.key, width: kvHeads * headWidth },
    { name: name.value, width: kvHeads * headWidth },
    { name: name.output, width },
    { name: name.gate, width: ffnWidth },
    { name: name.up, width: ffnWidth },
  ];
}

/** Declares the kept products as outputs of the forward pass. */
export function outputKept(config: ModelConfig, scope: TraceScope): OnProduct {
  const kept = new Set(allKept(config).map(({ name }) => name));
  return (name, product) => {
    if (kept.has(name)) scope.output(keptProductName(name), product);
    return product;
  };
}

/** Declares the kept products, [rows, width] each, as inputs of the backward pass, which reads them instead of computing them. */
export function readKept(config: ModelConfig, scope: TraceScope, rows: number): OnProduct {
  const kept = new Map(
    allKept(config).map(({ name, width }) => [name, scope.input<tf.Tensor2D>(keptProductName(name), [rows, width])]),
  );
  return (name, product) => {
    const value = kept.get(name);
    return value ? withValue(product, value) : product;
  };
}

const allKept = (config: ModelConfig): KeptProduct[] =>
  Array.from({ length: config.layers }, (_, layer) => keptProducts(config, layer)).flat();

/** `value`, with the gradient of `product`: nothing then needs the product's own value, so the trace drops it. */
function withValue(product: tf.Tensor2D, value: tf.Tensor2D): tf.Tensor2D {
  const operation = tf.customGrad<tf.Tensor>(() => ({ value: tf.clone(value), gradFunc: (dy: tf.Tensor) => dy }));
  return operation(product) as tf.Tensor2D;
}
