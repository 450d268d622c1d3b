/**
 * @file What a GGUF file's header says: the model's shape as a Hugging Face `config.json`, and each tensor's name and location.
 * Parsed by `@huggingface/gguf`; an unsupported architecture or type is rejected by name before anything is converted.
 */
import { GGMLQuantizationType, gguf } from "@huggingface/gguf";
import * as z from "zod";
import { errorText, isMgrpoError, MgrpoError } from "../../core/errors.ts";
import { type ModelConfig, parseModelConfig } from "../checkpoint/config.ts";
import { parameterLayout } from "../checkpoint/parameters.ts";
import { GGML_TYPES, type GgmlType } from "./dequantize.ts";

export interface GgufTensor {
  /** Its name in transformers. */
  readonly name: string;
  /** In transformers' order: [out, in]. */
  readonly shape: readonly number[];
  readonly type: GgmlType;
  /** Byte offset in the file. */
  readonly begin: number;
  readonly bytes: number;
  /** Number of heads whose rows are interleaved for llama.cpp's rotary embedding; 0: none. */
  readonly interleavedHeads: number;
}

export interface GgufModel {
  /** Location in the file of the factors by which Llama 3.1 and later divide the rotary frequencies. */
  readonly ropeFactors: Pick<GgufTensor, "type" | "begin" | "bytes"> | undefined;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly architecture: Architecture;
  readonly config: Readonly<Record<string, unknown>>;
  readonly tensors: readonly GgufTensor[];
}

/** `biased`: the projections that have biases. */
const ARCHITECTURES = {
  llama: { className: "LlamaForCausalLM", modelType: "llama", interleaves: true, biased: [] },
  qwen2: {
    className: "Qwen2ForCausalLM",
    modelType: "qwen2",
    interleaves: false,
    biased: ["attn_q", "attn_k", "attn_v"],
  },
  qwen3: { className: "Qwen3ForCausalLM", modelType: "qwen3", interleaves: false, biased: [] },
} as const;
export type Architecture = keyof typeof ARCHITECTURES;

/** @throws MgrpoError `checkpoint-damaged` or `engine-unsupported`; its message names the file. */
export async function readGguf(path: string, fileBytes: number): Promise<GgufModel> {
  const parsed = await gguf(path, { allowLocalFile: true }).catch((cause: unknown) => {
    const fault = errorText(cause);
    throw new MgrpoError("checkpoint-damaged", `${path} is not a readable GGUF file: ${fault}: download it again`, {
      cause,
    });
  });
  if (!parsed.littleEndian) throw bigEndian(path);
  const metadata: Readonly<Record<string, unknown>> = { ...parsed.metadata };
  if (metadata["general.architecture"] === undefined)
    throw new MgrpoError("checkpoint-damaged", `${path}: it names no architecture: download it again`);
  const architecture = architectureOf(path, metadata);
  refuseParts(path, metadata);
  refuseRopeScaling(path, metadata, architecture);
  const rawTensors = parsed.tensorInfos.map(({ name, shape, dtype, offset }) => ({
    name,
    shape: shape.map(Number).toReversed(),
    dtype: Number(dtype),
    begin: Number(parsed.tensorDataOffset + offset),
  }));
  const config = configOf(path, architecture, metadata, rawTensors);
  const heads = { q: config.num_attention_heads, k: config.num_key_value_heads };
  const located = rawTensors.map(({ name, shape, dtype, begin }) => {
    const type = GGML_TYPES.get(dtype) ?? refuseType(path, name, dtype);
    if ((shape.at(-1) ?? 0) % type.elements !== 0) throw partialBlock(path, name, type);
    const bytes = (shape.reduce((product, size) => product * size, 1) / type.elements) * type.bytes;
    if (begin + bytes > fileBytes) throw truncated(path, name);
    return { name, shape, type, begin, bytes };
  });
  const tensors = located
    .filter(({ name }) => name !== ROPE_FACTORS)
    .map((tensor): GgufTensor => {
      const projection = /\.attn_([qk])\.weight$/.exec(tensor.name)?.[1] as "q" | "k" | undefined;
      const interleavedHeads = ARCHITECTURES[architecture].interleaves && projection ? heads[projection] : 0;
      return { ...tensor, name: transformersName(path, architecture, tensor.name), interleavedHeads };
    });
  refuseOtherTensors(path, config, tensors);
  const ropeFactors = located.find(({ name }) => name === ROPE_FACTORS);
  return { metadata, architecture, config, tensors, ropeFactors };
}

function architectureOf(path: string, metadata: Readonly<Record<string, unknown>>): Architecture {
  const named = String(metadata["general.architecture"]);
  if (Object.hasOwn(ARCHITECTURES, named)) return named as Architecture;
  const known = Object.keys(ARCHITECTURES).join(", ");
  throw new MgrpoError("engine-unsupported", `${path}: architecture '${named}' is not supported: use one of ${known}`);
}

function refuseParts(path: string, metadata: Readonly<Record<string, unknown>>): void {
  const parts = Number(metadata["split.count"] ?? 1);
  if (parts <= 1) return;
  const message = `${path}: it is one of ${parts} parts of a model: join them with llama-gguf-split --merge, and import the result`;
  throw new MgrpoError("engine-unsupported", message);
}

/** In order of precedence. llama.cpp reads a factor without a type as linear scaling; older files have it under another name. */
const ROPE_SCALING = ["rope.scaling.type", "rope.scaling.factor", "rope.scale_linear"];

/** Llama 3.1's scaling is the tensor `rope_freqs`, without any of these keys. A factor of 0 means none, as in llama.cpp. */
function refuseRopeScaling(path: string, metadata: Readonly<Record<string, unknown>>, architecture: string): void {
  const key = ROPE_SCALING.find((name) => metadata[`${architecture}.${name}`] !== undefined);
  const value = metadata[`${architecture}.${key}`];
  if (key === undefined || value === "none" || value === 0 || value === 1) return;
  const message = `${path}: ${key} = "${value}" is not supported: import a file of the model without it`;
  throw new MgrpoError("engine-unsupported", message);
}

const Numeric = z.union([z.number(), z.bigint()]).transform(Number);

interface HeadCounts {
  readonly num_attention_heads: number;
  readonly num_key_value_heads: number;
}

interface RawTensor {
  readonly name: string;
  readonly shape: readonly number[];
}

function configOf(
  path: string,
  architecture: Architecture,
  metadata: Readonly<Record<string, unknown>>,
  tensors: readonly RawTensor[],
): HeadCounts & Record<string, unknown> {
  const read = (key: string, fallback?: number): number => {
    const name = `${architecture}.${key}`;
    const value = metadata[name] ?? fallback;
    if (value === undefined)
      throw new MgrpoError("checkpoint-damaged", `${path}: its metadata has no ${name}: download it again`);
    const found = Numeric.safeParse(value);
    if (found.success) return found.data;
    throw new MgrpoError(
      "engine-unsupported",
      `${path}: ${name} is not one number: a model whose layers differ is not supported: use another model`,
    );
  };
  const width = read("embedding_length");
  const heads = read("attention.head_count");
  const headWidth = read("attention.key_length", width / heads);
  const rotated = read("rope.dimension_count", headWidth);
  if (rotated < headWidth) {
    const positions = `rotary positions of ${rotated} of a head's ${headWidth} dimensions are`;
    throw new MgrpoError("engine-unsupported", `${path}: ${positions} not supported: use another model`);
  }
  const { className, modelType } = ARCHITECTURES[architecture];
  const embedding = tensors.find(({ name }) => name === "token_embd.weight");
  return {
    architectures: [className],
    model_type: modelType,
    hidden_size: width,
    num_hidden_layers: read("block_count"),
    num_attention_heads: heads,
    num_key_value_heads: read("attention.head_count_kv", heads),
    head_dim: headWidth,
    intermediate_size: read("feed_forward_length"),
    vocab_size: embedding?.shape[0] ?? read("vocab_size"),
    max_position_embeddings: read("context_length"),
    rms_norm_eps: singlePrecision(read("attention.layer_norm_rms_epsilon")),
    rope_theta: read("rope.freq_base", 10000),
    hidden_act: "silu",
    attention_bias: false,
    tie_word_embeddings: !tensors.some(({ name }) => name === "output.weight"),
    bos_token_id: specialTokenId(metadata, "bos"),
    eos_token_id: specialTokenId(metadata, "eos"),
    pad_token_id: specialTokenId(metadata, "padding"),
  };
}

const ROPE_FACTORS = "rope_freqs.weight";

/** 1e-5 is stored in 32 bits; widened to 64 it would read 0.000009999999747378752. */
const singlePrecision = (value: number): number => Number(value.toPrecision(6));

export function specialTokenId(metadata: Readonly<Record<string, unknown>>, name: string): number | undefined {
  const id = Numeric.safeParse(metadata[`tokenizer.ggml.${name}_token_id`]);
  return id.success ? id.data : undefined;
}

const LAYER_TENSORS: Readonly<Record<string, string>> = {
  attn_norm: "input_layernorm",
  attn_q: "self_attn.q_proj",
  attn_k: "self_attn.k_proj",
  attn_v: "self_attn.v_proj",
  attn_output: "self_attn.o_proj",
  attn_q_norm: "self_attn.q_norm",
  attn_k_norm: "self_attn.k_norm",
  ffn_norm: "post_attention_layernorm",
  ffn_gate: "mlp.gate_proj",
  ffn_up: "mlp.up_proj",
  ffn_down: "mlp.down_proj",
};
const MODEL_TENSORS: Readonly<Record<string, string>> = {
  "token_embd.weight": "model.embed_tokens.weight",
  "output_norm.weight": "model.norm.weight",
  "output.weight": "lm_head.weight",
};

function transformersName(path: string, architecture: Architecture, name: string): string {
  const [, layer, part = "", kind] = /^blk\.(\d+)\.(\w+)\.(weight|bias)$/.exec(name) ?? [];
  const biased: readonly string[] = ARCHITECTURES[architecture].biased;
  const known = layer === undefined ? MODEL_TENSORS[name] : LAYER_TENSORS[part];
  if (known === undefined || (kind === "bias" && !biased.includes(part)))
    throw new MgrpoError(
      "engine-unsupported",
      `${path}: tensor '${name}' is not part of a supported ${architecture} model: use the model's Hugging Face folder`,
    );
  return layer === undefined ? known : `model.layers.${layer}.${known}.${kind}`;
}

/** The tensors must be those of the model that the metadata describes, each with its shape. */
function refuseOtherTensors(path: string, config: object, tensors: readonly GgufTensor[]): void {
  const shape = shapeOf(path, config);
  // The first layers without tensors suffice for the refusal: a damaged count of layers may be in the billions.
  const { parameters } = parameterLayout({ ...shape, layers: Math.min(shape.layers, tensors.length) });
  const found = new Map(tensors.map(({ name, shape }) => [name, shape.join()]));
  const refuse = (fault: string) => {
    const message = `${path}: ${fault}: download it again, or use the model's Hugging Face folder`;
    throw new MgrpoError("checkpoint-damaged", message);
  };
  for (const { name, shape } of parameters) {
    const own = found.get(name);
    if (own === undefined) refuse(`it has no '${name}', which its metadata requires`);
    if (own !== shape.join()) refuse(`'${name}' has shape [${own}], but its metadata says [${shape}]`);
    found.delete(name);
  }
  const [extra] = found.keys();
  if (extra !== undefined) refuse(`'${extra}' is not part of the model that its metadata describes`);
}

function shapeOf(path: string, config: object): ModelConfig {
  try {
    return parseModelConfig(JSON.stringify(config));
  } catch (cause) {
    if (!isMgrpoError(cause)) throw cause;
    throw new MgrpoError(cause.code, `${path}: its metadata as ${cause.message}`, { cause });
  }
}

function refuseType(path: string, name: string, dtype: number): never {
  const known = [...GGML_TYPES.values()].map((type) => type.name).join(", ");
  const typeName = GGMLQuantizationType[dtype] ?? `of ggml type ${dtype}`;
  throw new MgrpoError(
    "engine-unsupported",
    `${path}: '${name}' is ${typeName}, which is not supported (supported: ${known}): import a Q8_0 or Q4_K_M file of the model, or use its Hugging Face folder`,
  );
}

const partialBlock = (path: string, name: string, type: GgmlType) =>
  new MgrpoError(
    "checkpoint-damaged",
    `${path}: a row of '${name}' is not a whole number of ${type.name} blocks: download it again`,
  );

/** Blocks are read as little-endian. */
const bigEndian = (path: string) =>
  new MgrpoError(
    "engine-unsupported",
    `${path}: it is big-endian: import a little-endian file of the model, or convert this one with gguf-convert-endian of the Python package gguf`,
  );

const truncated = (path: string, name: string) =>
  new MgrpoError("checkpoint-damaged", `${path} ends before the end of '${name}': download it again`);
