/**
 * @file Memory that the compiled engine needs to sample from a model and train it in one process, from its sizes alone. Our own arrays are
 * counted; the runtime's are estimated from the activations of one layer. `npm run bench -- memory` compares with measurements.
 */
import type { LoraConfig } from "../../core/contracts/lora.ts";
import type { EngineOptions } from "../../core/ports.ts";
import { adapterLayout } from "../checkpoint/adapter.ts";
import type { ModelConfig } from "../checkpoint/config.ts";
import { EMBEDDING, type Parameter, parameterLayout } from "../checkpoint/parameters.ts";
import { ATTENTION_BLOCKS } from "./graphs/train.ts";
import { laneCount } from "./lanes.ts";
import type { StoredWeights } from "./open-weights.ts";
import { kvCacheBytes } from "./sampling/kv-cache.ts";
import { HEAD_ARRAYS, headRows } from "./training/head-chunks.ts";

export interface MemoryPlan {
  /** Node.js, TensorFlow.js and the runtime, with one thread for sampling and one for training. */
  readonly program: number;
  /** The model: memory-mapped under an adapter; otherwise one array for training and one for each sampler. */
  readonly weights: number;
  /** The sampler's packed copy of a mapped base, shared by all versions; 0 unless `packing` is on. */
  readonly packed: number;
  /** A and B: one copy for training and one for each sampler; 0 without an adapter. */
  readonly adapter: number;
  /** A gradient for each lane, and AdamW's two moments. */
  readonly optimizer: number;
  /** Of one micro-batch in each lane. */
  readonly activations: number;
  /** Keys and values of all slots at the full context. */
  readonly cache: number;
  /** A version's files while it is saved: trained weights and two moments, and one more copy of the weights for the next sampler. */
  readonly saving: number;
}

const FLOAT_BYTES = 4;
const PROGRAM_BYTES = 400e6;
/** The trainer's, the sampler's, and the next version's sampler, which opens before the current one closes. */
const COPIES = 3;
/** And the reference's, under a KL term. */
const COPIES_WITH_REFERENCE = 4;
/** Up to this much per lane, full training keeps the activations of every layer in one graph, which is faster. */
const MAXIMUM_WHOLE_BYTES = 2 * 2 ** 30;

/** All numbers are bytes; packing `auto` is resolved before (packing.ts). `reference`: a trainer of version 0 is open too, for a KL term. */
export function planMemory(
  config: ModelConfig,
  lora: LoraConfig | null,
  options: EngineOptions,
  stored: StoredWeights,
  reference = false,
): MemoryPlan {
  const parameters = parameterLayout(config).length;
  const trained = lora ? adapterLayout(config, lora).length : parameters;
  const lanes = laneCount(config, options);
  const copies = lanes * (reference ? COPIES_WITH_REFERENCE : COPIES);
  const whole = !lora && computesWhole(config, options);
  const floats = whole ? wholeActivations(config, options) : layeredActivations(config, options);
  return {
    program: PROGRAM_BYTES,
    weights: lora && stored.mapped ? mappedBytes(config, stored) : FLOAT_BYTES * parameters * copies,
    packed: lora && options.packing === "on" ? FLOAT_BYTES * lanes * productWeights(config) : 0,
    adapter: lora ? FLOAT_BYTES * trained * copies : 0,
    optimizer: FLOAT_BYTES * trained * (lanes + 2),
    activations: FLOAT_BYTES * lanes * floats,
    cache: kvCacheBytes(config, options.slots, options.contextTokens),
    saving: FLOAT_BYTES * trained * 4,
  };
}

export const totalBytes = (plan: MemoryPlan): number => Object.values(plan).reduce((sum, bytes) => sum + bytes, 0);

/** Whether full training keeps the activations of every layer (whole-passes.ts) or of one (layered-passes.ts). */
export const computesWhole = (config: ModelConfig, options: EngineOptions): boolean =>
  FLOAT_BYTES * wholeActivations(config, options) <= MAXIMUM_WHOLE_BYTES;

/** Weights of all matrix products. An embedding that is not tied to the head is only looked up. */
function productWeights(config: ModelConfig): number {
  const isProduct = ({ name, shape }: Parameter) => shape.length === 2 && (config.tied || name !== EMBEDDING);
  return parameterLayout(config).parameters.reduce((sum, p) => sum + (isProduct(p) ? p.length : 0), 0);
}

/** Half-precision weights need a float32 copy of the largest matrix while it is read: one for sampling and one for training. */
function mappedBytes(config: ModelConfig, { bytes }: StoredWeights): number {
  const { parameters, length } = parameterLayout(config);
  const largest = Math.max(...parameters.map((parameter) => parameter.length));
  return bytes + (bytes < FLOAT_BYTES * length ? 2 * FLOAT_BYTES * largest : 0);
}

/** Padded tokens of the largest micro-batch: at least one sequence. */
const microBatch = ({ microBatchTokens, contextTokens }: EngineOptions) => Math.max(microBatchTokens, contextTokens);

/** Floats: each layer's input, the activations of one layer, and the head's arrays for a chunk of rows. */
function layeredActivations(config: ModelConfig, options: EngineOptions): number {
  const tokens = microBatch(options);
  const states = (config.layers + 1) * tokens * config.width;
  return (
    states +
    tokens * layerFloats(config, options) +
    HEAD_ARRAYS * headRows(config.vocabulary, tokens) * config.vocabulary
  );
}

/** Floats: the activations of every layer wait for the backward pass, and the head's arrays cover all rows. */
function wholeActivations(config: ModelConfig, options: EngineOptions): number {
  const tokens = microBatch(options);
  return tokens * (config.layers * layerFloats(config, options) + HEAD_ARRAYS * config.vocabulary);
}

/** Floats per token in one layer, forward and backward: residual stream, heads, feed-forward and attention scores. */
function layerFloats(
  { width, heads, kvHeads, headWidth, ffnWidth }: ModelConfig,
  { contextTokens }: EngineOptions,
): number {
  const causal = (ATTENTION_BLOCKS + 1) / (2 * ATTENTION_BLOCKS);
  return 8 * width + 6 * headWidth * (heads + kvHeads) + 8 * ffnWidth + 3 * heads * causal * contextTokens;
}
