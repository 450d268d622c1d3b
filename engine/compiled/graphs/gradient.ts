/**
 * @file The gradient of a parameter as a graph's output: `d:<parameter>` is `sum:<parameter>`, an input, plus what this run adds, so the sum
 * over micro-batches is taken while its terms lie in the cache. Both are one array: an entry is read before it is written.
 */
import * as tf from "@tensorflow/tfjs-core";
import type { Parameter, ParameterLayout } from "../../checkpoint/parameters.ts";
import type { Feeds } from "../graph-session.ts";
import type { TraceScope } from "../trace/trace.ts";
import { parameterTensors } from "./weights.ts";

const sumName = (parameter: string): string => `sum:${parameter}`;
const gradientName = (parameter: string): string => `d:${parameter}`;

export function outputGradient(scope: TraceScope, parameter: string, gradient: tf.Tensor): void {
  const sum = scope.input(sumName(parameter), gradient.shape);
  scope.output(gradientName(parameter), tf.add(sum, gradient));
}

/** What a graph reads and writes to add to parts of a flat gradient. */
export function gradientTensors(
  layout: ParameterLayout,
  gradient: Float32Array,
  parameters: readonly Parameter[],
): { sums: Feeds; outputs: Feeds } {
  return {
    sums: parameterTensors(layout, gradient, sumName, parameters),
    outputs: parameterTensors(layout, gradient, gradientName, parameters),
  };
}
