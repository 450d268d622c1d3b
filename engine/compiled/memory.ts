/**
 * @file The memory that the compiled engine needs to sample from a model and train it in one process, computed from sizes and settings alone.
 * Our own arrays are counted; the runtime's are estimated from the activations of one layer. `npm run bench -- memory` compares the result
 * with measurements.
 */
import type { LoraConfig } from "../../core/contracts/lora.ts";
import type { EngineOptions } from "../../core/ports.ts";
import { adapterLayout } from "../checkpoint/adapter.ts";
import type { ModelConfig } from "../checkpoint/config.ts";
import { EMBEDDING, linearParameters, type Parameter, parameterLayout } from "../checkpoint/parameters.ts";
import { SHARD_BYTES } from "../checkpoint/shards.ts";
import { HEAD_ARRAYS, headRows } from "./graphs/head-chunks.ts";
import { keptProducts } from "./graphs/kept-products.ts";
import { CAUSAL_SHARE } from "./graphs/train.ts";
import { laneCount } from "./lanes.ts";
import type { StoredWeights } from "./open-weights.ts";
import { type Bits, BLOCK, codeBytes } from "./quantization/blocks.ts";
import { bitsOf, planQuantizedBase } from "./quantization/quantized-base.ts";
import { kvCacheBytes } from "./sampling/kv-cache.ts";

export interface MemoryPlan {
  /** Node.js, TensorFlow.js and the runtime, with one thread for sampling and one for training. */
  readonly program: number;
  /**
   * For a base that is memory-mapped under an adapter: its pages, the file of its quantized layers, and two float32 copies of the largest matrix
   * that is not stored as float32. For any other model: in each lane, one array for each trainer and each sampler.
   */
  readonly weights: number;
  /** The packed copy of a mapped base in each lane of the sampler, shared by all versions: float32, or codes; 0 unless `weightPacking` is on. */
  readonly packed: number;
  /** A and B: in each lane, one copy for each trainer and each sampler; 0 without an adapter. */
  readonly adapter: number;
  /** A gradient for each lane, and AdamW's two moments. */
  readonly optimizer: number;
  /** Of one micro-batch in each lane. */
  readonly activations: number;
  /** Outputs of the linear layers, kept for the backward pass; 0 where it recomputes them, or `activations` includes them. */
  readonly kept: number;
  /** What prefix trees add: their graphs keep arrays of their own, and every tree has a mask. */
  readonly trees: number;
  /** Keys and values of all slots at the full context, for each version that is sampled from. */
  readonly cache: number;
  /**
   * A version's files: the weights for the next sampler, and either what is in flight while the version is saved (one file is written,
   * one hashed and one stored), or both moments while it is loaded, or in each lane the gradient by which trees are checked: never two of these.
   */
  readonly saving: number;
}

const FLOAT_BYTES = 4;
const PROGRAM_BYTES = 400e6;
/** A version's sampler, and the next version's, which opens before the current one closes. */
const SAMPLERS = 2;

export interface MemoryUse {
  /** A trainer of the reference policy is also open, for a KL term. */
  readonly reference?: boolean;
  /** Number of additional versions that are sampled from at the same time, each with its own cache. */
  readonly staleness?: number;
}

/** Up to this much per lane, full training keeps the activations of every layer in one graph, which is faster. */
const MAXIMUM_WHOLE_BYTES = 2 * 2 ** 30;

/** Engine options with each `auto` resolved (spare-memory.ts). */
export interface ResolvedOptions extends EngineOptions {
  /** Lanes of a sampler. Absent: as many as a trainer has. */
  readonly samplingLanes?: number;
}

/** All numbers are bytes. */
export function planMemory(
  config: ModelConfig,
  lora: LoraConfig | null,
  options: ResolvedOptions,
  stored: StoredWeights,
  { reference = false, staleness = 0 }: MemoryUse = {},
): MemoryPlan {
  const trained = lora ? adapterLayout(config, lora).length : parameterLayout(config).length;
  const lanes = laneCount(config, options);
  const { samplingLanes = lanes } = options;
  const copies = lanes * (reference ? 2 : 1) + samplingLanes * (SAMPLERS + staleness);
  const held = heldWeights(config, lora, options, stored, { copies, samplingLanes });
  const whole = !lora && computesWhole(config, options);
  const keeps = !whole && options.gradientCheckpointing === "off";
  const floats = whole ? wholeActivations(config, options) : layeredActivations(config, options);
  const hasTrees = options.prefixTrees !== false;
  const keepsArrays = !lora || !(isHalf(config, stored) || bitsOf(options.quantization));
  return {
    program: PROGRAM_BYTES,
    ...held,
    optimizer: FLOAT_BYTES * trained * (lanes + 2),
    activations: FLOAT_BYTES * lanes * floats,
    kept: keeps ? FLOAT_BYTES * lanes * microBatch(options) * keptFloats(config) : 0,
    trees: hasTrees ? FLOAT_BYTES * lanes * treeFloats(config, options, whole, keepsArrays) : 0,
    cache: (1 + staleness) * kvCacheBytes(config, options.slots, options.contextTokens),
    saving:
      FLOAT_BYTES * trained +
      Math.max(
        2 * FLOAT_BYTES * trained,
        Math.min(3 * FLOAT_BYTES * trained, 3 * SHARD_BYTES),
        hasTrees ? lanes * FLOAT_BYTES * trained : 0,
      ),
  };
}

/** What a process needs to sample from one version of a model that it does not train. All numbers are bytes. */
export function planSampling(
  config: ModelConfig,
  lora: LoraConfig | null,
  options: ResolvedOptions,
  stored: StoredWeights,
): MemoryPlan {
  const { samplingLanes = laneCount(config, options) } = options;
  return {
    program: PROGRAM_BYTES,
    ...heldWeights(config, lora, options, stored, { copies: samplingLanes, samplingLanes }),
    optimizer: 0,
    activations: 0,
    kept: 0,
    trees: 0,
    cache: kvCacheBytes(config, options.slots, options.contextTokens),
    saving: 0,
  };
}

/** `copies`: how many arrays of what is trained all trainers and samplers have. */
function heldWeights(
  config: ModelConfig,
  lora: LoraConfig | null,
  options: ResolvedOptions,
  stored: StoredWeights,
  { copies, samplingLanes }: { readonly copies: number; readonly samplingLanes: number },
): Pick<MemoryPlan, "weights" | "packed" | "adapter"> {
  const own = FLOAT_BYTES * parameterLayout(config).length * copies;
  if (!lora) return { weights: own, packed: 0, adapter: 0 };
  return {
    weights: stored.mapped ? frozenBytes(config, options, stored) : own,
    packed: options.weightPacking === "on" ? samplingLanes * packedBytes(config, bitsOf(options.quantization)) : 0,
    adapter: FLOAT_BYTES * adapterLayout(config, lora).length * copies,
  };
}

export const totalBytes = (plan: MemoryPlan): number => Object.values(plan).reduce((sum, bytes) => sum + bytes, 0);

/** One process on a machine with others. */
export interface ProcessMemory {
  readonly plan: MemoryPlan;
  /** The files that hold its memory-mapped weights, and the bytes of them that it maps: part of its plan's `weights`. */
  readonly mapped: { readonly files: readonly string[]; readonly bytes: number };
}

/** What processes on one machine need together: pages of files that several of them map are in memory once. */
export function totalOfProcesses(processes: readonly ProcessMemory[]): number {
  const pages = new Map<string, number>();
  let own = 0;
  for (const { plan, mapped } of processes) {
    const files = mapped.files.join("\0");
    // A quantized base maps fewer of the same pages.
    pages.set(files, Math.max(mapped.bytes, pages.get(files) ?? 0));
    own += totalBytes(plan) - mapped.bytes;
  }
  return [...pages.values()].reduce((sum, bytes) => sum + bytes, own);
}

/** The part of `weights` that is pages of the checkpoint's files. */
export const mappedBytes = (
  config: ModelConfig,
  lora: LoraConfig | null,
  options: EngineOptions,
  stored: StoredWeights,
): number => (lora && stored.mapped ? pageBytes(config, options, stored) : 0);

/** Whether full training is one graph (whole-passes.ts), which keeps the activations of every layer, or goes layer by layer (layered-passes.ts). */
export const computesWhole = (config: ModelConfig, options: EngineOptions): boolean =>
  options.gradientCheckpointing !== "on" && FLOAT_BYTES * wholeActivations(config, options) <= MAXIMUM_WHOLE_BYTES;

/** Floats per token. */
const keptFloats = (config: ModelConfig): number =>
  config.layers * keptProducts(config, 0).reduce((sum, { width }) => sum + width, 0);

const lengthOf = (parameters: readonly Parameter[]) => parameters.reduce((sum, { length }) => sum + length, 0);
const largestOf = (parameters: readonly Parameter[]) => Math.max(...parameters.map(({ length }) => length));

/**
 * Weights of all matrix products, in float32 or as codes with a scale and a sum for each block. An embedding that is not tied to the head is
 * only looked up.
 */
function packedBytes(config: ModelConfig, bits: Bits | undefined): number {
  const isProduct = ({ name, shape }: Parameter) => shape.length === 2 && (config.tied || name !== EMBEDDING);
  const products = lengthOf(parameterLayout(config).parameters.filter(isProduct));
  if (!bits) return FLOAT_BYTES * products;
  const linear = lengthOf(linearParameters(config));
  return FLOAT_BYTES * (products - linear + (2 * linear) / BLOCK) + codeBytes(linear, bits);
}

/**
 * Half-precision or quantized weights need a float32 copy of the largest matrix while it is read: one for sampling and one for training.
 * The file of quantized layers is the process's own.
 */
function frozenBytes(config: ModelConfig, options: EngineOptions, stored: StoredWeights): number {
  const bits = bitsOf(options.quantization);
  const linear = bits ? linearParameters(config) : [];
  const half = isHalf(config, stored) ? largestOf(unquantized(config, options)) : 0;
  const copied = Math.max(half, bits ? largestOf(linear) : 0);
  const quantized = bits ? planQuantizedBase(config, bits).bytes : 0;
  return pageBytes(config, options, stored) + quantized + 2 * FLOAT_BYTES * copied;
}

/** Bytes of the mapped parameters. For a model stored in several types, the share of quantized ones, which are not mapped, is estimated. */
const pageBytes = (config: ModelConfig, options: EngineOptions, { bytes }: StoredWeights): number =>
  Math.ceil(bytes * (lengthOf(unquantized(config, options)) / parameterLayout(config).length));

function unquantized(config: ModelConfig, { quantization }: EngineOptions): Parameter[] {
  const linear = new Set(bitsOf(quantization) ? linearParameters(config).map(({ name }) => name) : []);
  return parameterLayout(config).parameters.filter(({ name }) => !linear.has(name));
}

/**
 * Whether weights are stored in half precision. The runtime then frees its arrays after a run, as with quantized
 * weights (graph-session.ts).
 */
const isHalf = (config: ModelConfig, { bytes }: StoredWeights) => bytes < FLOAT_BYTES * parameterLayout(config).length;

/** Padded tokens of the largest micro-batch: at least one sequence. */
const microBatch = ({ microBatchTokens, contextTokens }: EngineOptions) => Math.max(microBatchTokens, contextTokens);

/** Floats: each layer's input, the activations of one layer, and the head's arrays for a chunk of rows. */
function layeredActivations(config: ModelConfig, options: EngineOptions): number {
  const tokens = microBatch(options);
  const states = (config.layers + 1) * tokens * config.width;
  return states + tokens * layerFloats(config, options) + headFloats(config, tokens);
}

/** Floats: the activations of every layer wait for the backward pass, and the head's arrays cover all rows. */
function wholeActivations(config: ModelConfig, options: EngineOptions): number {
  const tokens = microBatch(options);
  return tokens * (config.layers * layerFloats(config, options) + HEAD_ARRAYS * config.vocabulary);
}

/**
 * Floats: the masks of the largest micro-batch of trees, which has as many scores as one of sequences (micro-batches.ts), and their parts for
 * each block of queries. And, where graphs keep their arrays, those of the trees' graphs and of a head that computes log-probs alone.
 */
function treeFloats(config: ModelConfig, options: EngineOptions, whole: boolean, keepsArrays: boolean): number {
  const tokens = microBatch(options);
  const masks = (1 + CAUSAL_SHARE) * tokens * options.contextTokens;
  if (!keepsArrays) return masks;
  if (whole) return masks + wholeActivations(config, options);
  return masks + tokens * layerFloats(config, options) + headFloats(config, tokens);
}

/** Floats of the head's arrays for a chunk of rows. */
const headFloats = ({ vocabulary }: ModelConfig, tokens: number): number =>
  HEAD_ARRAYS * headRows(vocabulary, tokens) * vocabulary;

/** Floats per token in one layer, forward and backward: residual stream, heads, feed-forward and attention scores. */
function layerFloats(
  { width, heads, kvHeads, headWidth, ffnWidth }: ModelConfig,
  { contextTokens }: EngineOptions,
): number {
  return 8 * width + 6 * headWidth * (heads + kvHeads) + 8 * ffnWidth + 3 * heads * CAUSAL_SHARE * contextTokens;
}
