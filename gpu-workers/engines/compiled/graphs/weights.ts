/** @file Weights as graph inputs: a new version of a policy is new feeds, never a new graph. */
import type { ModelConfig } from "../../checkpoint/config.ts";
import { EMBEDDING, type Layout, type Parameter, parameterLayout, views } from "../../checkpoint/parameters.ts";
import type { Weights } from "../../model/transformer.ts";
import { type Feeds, tensor } from "../session.ts";
import { requireForeign } from "../trace/dimensions.ts";
import type { TraceScope } from "../trace/trace.ts";

/** Parameters that a graph reads: the embedding only as the head, since rows are looked up outside. */
export function graphParameters(config: ModelConfig): Parameter[] {
  return parameterLayout(config).parameters.filter(({ name }) => name !== EMBEDDING || config.tied);
}

export function declareWeights(config: ModelConfig, scope: TraceScope): Weights {
  const parameters = graphParameters(config);
  for (const { name, shape } of parameters) requireForeign(name, shape);
  return Object.fromEntries(parameters.map(({ name, shape }) => [name, scope.input(name, shape)]));
}

/** Tensors over each parameter's part of a flat vector; no copy. */
export function parameterTensors(
  config: ModelConfig,
  layout: Layout,
  flat: Float32Array,
  name: (parameter: string) => string = (parameter) => parameter,
): Feeds {
  const parts = views(layout, flat);
  return Object.fromEntries(
    graphParameters(config).map((p) => [name(p.name), tensor(parts.get(p.name) ?? new Float32Array(), p.shape)]),
  );
}
