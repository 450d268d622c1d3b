/** @file Weights as graph inputs: a graph depends on their shapes alone, so it is reused when the values that it is fed change. */
import { type Parameter, type ParameterLayout, viewOf } from "../../checkpoint/parameters.ts";
import type { WeightTensors } from "../../model/transformer.ts";
import { type Feeds, tensor } from "../graph-session.ts";
import { refuseSymbolicDimensions } from "../trace/dimensions.ts";
import type { TraceScope } from "../trace/trace.ts";

export function declareWeights(parameters: readonly Parameter[], scope: TraceScope): WeightTensors {
  for (const { name, shape } of parameters) refuseSymbolicDimensions(name, shape);
  return Object.fromEntries(parameters.map(({ name, shape }) => [name, scope.input(name, shape)]));
}

/** The `wanted` parameters as views of a flat vector, without a copy. */
export function parameterTensors(
  layout: ParameterLayout,
  flat: Float32Array,
  name: (parameter: string) => string = (parameter) => parameter,
  wanted: readonly Parameter[] = layout.parameters,
): Feeds {
  return Object.fromEntries(wanted.map((p) => [name(p.name), tensor(viewOf(p, flat), p.shape)]));
}
