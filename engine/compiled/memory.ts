/**
 * @file What the compiled engine will need in memory to sample from a model and to train it in one process, from its sizes alone. Where
 * arrays are ours to count they are counted; what the runtime holds while it computes is estimated from the arrays of one layer.
 * `npm run bench -- memory` measures beside it.
 */
import type { LoraConfig } from "../../core/contracts/lora.ts";
import type { EngineOptions } from "../../core/ports.ts";
import { adapterLayout } from "../checkpoint/adapter.ts";
import type { ModelConfig } from "../checkpoint/config.ts";
import { parameterLayout } from "../checkpoint/parameters.ts";
import { ATTENTION_BLOCKS } from "./graphs/train.ts";
import { laneCount } from "./lanes.ts";
import { kvCacheBytes } from "./sampling/kv-cache.ts";
import { HEAD_ARRAYS, headRows } from "./training/layered-passes.ts";

export interface MemoryPlan {
  /** Node.js, TensorFlow.js and the runtime, with an engine thread for sampling and one for training. */
  readonly program: number;
  /** The model: mapped from its file under an adapter; otherwise arrays, one for training and one of each sampler. */
  readonly weights: number;
  /** A, B: one for training and one of each sampler; absent without an adapter. */
  readonly adapter: number;
  /** The gradient of what is trained, one of each lane, and AdamW's two moments. */
  readonly optimizer: number;
  /** Of one micro-batch. */
  readonly activations: number;
  /** Keys and values of all slots at the full context. */
  readonly cache: number;
  /** The files of a version while it is written: what is trained and its two moments; and the former, on its way to the next sampler. */
  readonly saving: number;
}

/** How a model lies on disk: whether it is mapped from there, and the bytes of all its tensors. */
export interface StoredWeights {
  readonly mapped: boolean;
  readonly bytes: number;
}

const FLOAT_BYTES = 4;
const PROGRAM_BYTES = 400e6;
/** The trainer's, the sampler's, and the next version's sampler, which opens before that one closes. */
const COPIES = 3;
/** And that of the reference, under a KL term. */
const COPIES_WITH_REFERENCE = 4;
/** All weights are trained in one graph that keeps every layer's arrays where those take no more than this in a lane, for it is faster. */
const LARGEST_WHOLE_BYTES = 2 * 2 ** 30;

/** Bytes. `reference`: a trainer of version 0 is open too, for a KL term. */
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
    adapter: lora ? FLOAT_BYTES * trained * copies : 0,
    optimizer: FLOAT_BYTES * trained * (lanes + 2),
    activations: FLOAT_BYTES * lanes * floats,
    cache: kvCacheBytes(config, options.slots, options.contextTokens),
    saving: FLOAT_BYTES * trained * 4,
  };
}

export const totalBytes = (plan: MemoryPlan): number => Object.values(plan).reduce((sum, bytes) => sum + bytes, 0);

/** Whether a lane's arrays are few enough that training all weights keeps those of every layer. */
export const computesWhole = (config: ModelConfig, options: EngineOptions): boolean =>
  FLOAT_BYTES * wholeActivations(config, options) <= LARGEST_WHOLE_BYTES;

/** Of halves there is, while it is read, the largest matrix as float32: once for sampling and once for training. */
function mappedBytes(config: ModelConfig, { bytes }: StoredWeights): number {
  const { parameters, length } = parameterLayout(config);
  const largest = Math.max(...parameters.map((parameter) => parameter.length));
  return bytes + (bytes < FLOAT_BYTES * length ? 2 * FLOAT_BYTES * largest : 0);
}

/** Padded tokens of the largest micro-batch: at least one sequence. */
const microBatch = ({ microBatchTokens, contextTokens }: EngineOptions) => Math.max(microBatchTokens, contextTokens);

/** Floats: what enters each layer, one layer's own, and the head's of some rows. */
function layeredActivations(config: ModelConfig, options: EngineOptions): number {
  const tokens = microBatch(options);
  const states = (config.layers + 1) * tokens * config.width;
  return (
    states +
    tokens * layerFloats(config, options) +
    HEAD_ARRAYS * headRows(config.vocabulary, tokens) * config.vocabulary
  );
}

/** Floats: every layer's arrays wait for the backward pass, and the head's are of all rows. */
function wholeActivations(config: ModelConfig, options: EngineOptions): number {
  const tokens = microBatch(options);
  return tokens * (config.layers * layerFloats(config, options) + HEAD_ARRAYS * config.vocabulary);
}

/** Floats of a token in one layer, forward and backward: the residual stream, heads, feed-forward and attention's scores. */
function layerFloats(
  { width, heads, kvHeads, headWidth, ffnWidth }: ModelConfig,
  { contextTokens }: EngineOptions,
): number {
  const causal = (ATTENTION_BLOCKS + 1) / (2 * ATTENTION_BLOCKS);
  return 8 * width + 6 * headWidth * (heads + kvHeads) + 8 * ffnWidth + 3 * heads * causal * contextTokens;
}
