/**
 * @file A parameter's gradient as a graph output: `d:<parameter>` is the input `sum:<parameter>` plus the gradient of this graph run, so
 * that micro-batches are summed while the gradient is still in the CPU cache. Both share one array: each element is read before it is written.
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

export interface GradientTensors {
  readonly sums: Feeds;
  readonly outputs: Feeds;
}

/** Views of the given parameters' parts of a flat gradient, as a graph's inputs and outputs. */
export function gradientTensors(
  layout: ParameterLayout,
  gradient: Float32Array,
  parameters: readonly Parameter[],
): GradientTensors {
  return {
    sums: parameterTensors(layout, gradient, sumName, parameters),
    outputs: parameterTensors(layout, gradient, gradientName, parameters),
  };
}
