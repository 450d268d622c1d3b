/**
 * @file The parameters of a model: Hugging Face names and shapes ([out, in]), and their offsets in a flat vector. Gradients and
 * AdamW's moments are vectors with the same layout.
 */
import { LoraTarget } from "../../core/contracts/lora.ts";
import type { ModelConfig } from "./config.ts";

export interface Parameter {
  readonly name: string;
  readonly shape: readonly number[];
  /** Offset in the flat vector, in elements. */
  readonly offset: number;
  readonly length: number;
}

export interface ParameterLayout {
  readonly parameters: readonly Parameter[];
  readonly length: number;
}

export const EMBEDDING = "model.embed_tokens.weight";
export const FINAL_NORM = "model.norm.weight";
export const HEAD = "lm_head.weight";

/** Names of a layer's weights, as checkpoints write them, whether the family has them or not. `biasOf` names the biases. */
export function layerNames(layer: number) {
  const at = (name: string) => `model.layers.${layer}.${name}.weight`;
  return {
    attentionNorm: at("input_layernorm"),
    query: at("self_attn.q_proj"),
    key: at("self_attn.k_proj"),
    value: at("self_attn.v_proj"),
    output: at("self_attn.o_proj"),
    queryNorm: at("self_attn.q_norm"),
    keyNorm: at("self_attn.k_norm"),
    ffnNorm: at("post_attention_layernorm"),
    gate: at("mlp.gate_proj"),
    up: at("mlp.up_proj"),
    down: at("mlp.down_proj"),
  };
}

/** Name of the bias that belongs to a projection's weight, if the family has one. */
export const biasOf = (weight: string): string => weight.replace(/weight$/, "bias");

/** Name of the output head's matrix. */
export const headName = (config: ModelConfig): string => (config.tied ? EMBEDDING : HEAD);

export function parameterLayout(config: ModelConfig): ParameterLayout {
  const { width, heads, kvHeads, headWidth, ffnWidth, vocabulary } = config;
  const shapes: [string, number[]][] = [[EMBEDDING, [vocabulary, width]]];
  for (let layer = 0; layer < config.layers; layer++) {
    const name = layerNames(layer);
    const projections: [string, number][] = [
      [name.query, heads * headWidth],
      [name.key, kvHeads * headWidth],
      [name.value, kvHeads * headWidth],
    ];
    shapes.push([name.attentionNorm, [width]]);
    for (const [weight, outputs] of projections) shapes.push([weight, [outputs, width]]);
    if (config.projectionBias) for (const [weight, outputs] of projections) shapes.push([biasOf(weight), [outputs]]);
    shapes.push([name.output, [width, heads * headWidth]]);
    if (config.queryKeyNorm) shapes.push([name.queryNorm, [headWidth]], [name.keyNorm, [headWidth]]);
    shapes.push(
      [name.ffnNorm, [width]],
      [name.gate, [ffnWidth, width]],
      [name.up, [ffnWidth, width]],
      [name.down, [width, ffnWidth]],
    );
  }
  shapes.push([FINAL_NORM, [width]]);
  if (!config.tied) shapes.push([HEAD, [vocabulary, width]]);
  return layoutOf(shapes);
}

/** The matrices of the decoder's linear layers, or of those that `targets` names, in the layout's order. */
export function linearParameters(config: ModelConfig, targets: readonly string[] = LoraTarget.options): Parameter[] {
  const isTarget = ({ name }: Parameter) => targets.includes(/\.([a-z_]+)\.weight$/.exec(name)?.[1] ?? "");
  return parameterLayout(config).parameters.filter(isTarget);
}

/** Lays tensors out one after the other. */
export function layoutOf(shapes: readonly (readonly [name: string, shape: readonly number[]])[]): ParameterLayout {
  let offset = 0;
  const parameters = shapes.map(([name, shape]) => {
    const length = shape.reduce((product, size) => product * size, 1);
    const parameter = { name, shape, offset, length };
    offset += length;
    return parameter;
  });
  return { parameters, length: offset };
}

/** A parameter's part of a flat vector; no copy. */
export const viewOf = ({ offset, length }: Parameter, flat: Float32Array): Float32Array =>
  flat.subarray(offset, offset + length);

/** Each parameter's part of a flat vector; no copy. */
export function views(layout: ParameterLayout, flat: Float32Array): Map<string, Float32Array> {
  return new Map(layout.parameters.map((parameter) => [parameter.name, viewOf(parameter, flat)]));
}

/** The named parameter's part of a flat vector; no copy. */
export function viewNamed(name: string, layout: ParameterLayout, flat: Float32Array): Float32Array {
  const parameter = layout.parameters.find((one) => one.name === name);
  if (!parameter) throw new Error(`no parameter ${name}`);
  return viewOf(parameter, flat);
}
