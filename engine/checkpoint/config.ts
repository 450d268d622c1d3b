/**
 * @file The model's shape, from a Hugging Face `config.json` of a supported family (families.ts), as written by transformers 4 or 5. Features
 * that we do not compute are refused by name.
 */
import * as z from "zod";
import { parse, parseJson } from "../../core/contracts/parse.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFiles } from "../../core/ports.ts";
import { DEFAULT_MAX_WINDOW_LAYERS, DEFAULT_SLIDING_WINDOW, FAMILIES, type Family } from "./families.ts";
import { wholeFile } from "./files.ts";

const Rope = z.looseObject({
  rope_type: z.string().optional(),
  /** Written in place of `rope_type` by transformers before 4.43. */
  type: z.string().optional(),
  rope_theta: z.number().positive().optional(),
  factor: z.number().positive().optional(),
  low_freq_factor: z.number().positive().optional(),
  high_freq_factor: z.number().positive().optional(),
  original_max_position_embeddings: z.int().positive().optional(),
  partial_rotary_factor: z.number().optional(),
});

const FamilyNames = z.looseObject({
  architectures: z.array(z.string()).nullish(),
  model_type: z.string().optional(),
});
type FamilyNames = z.infer<typeof FamilyNames>;

const HuggingFaceConfig = FamilyNames.extend({
  hidden_size: z.int().positive(),
  num_hidden_layers: z.int().positive(),
  num_attention_heads: z.int().positive(),
  /** Absent: the number of query heads. */
  num_key_value_heads: z.int().positive().nullish(),
  head_dim: z.int().positive().nullish(),
  intermediate_size: z.int().positive(),
  vocab_size: z.int().positive(),
  max_position_embeddings: z.int().positive().optional(),
  rms_norm_eps: z.number().positive().default(1e-6),
  rope_theta: z.number().positive().default(10000),
  rope_scaling: Rope.nullish(),
  /** transformers 5 writes this in place of the two above. */
  rope_parameters: Rope.nullish(),
  partial_rotary_factor: z.number().default(1),
  tie_word_embeddings: z.boolean().default(false),
  hidden_act: z.string().default("silu"),
  attention_bias: z.boolean().default(false),
  mlp_bias: z.boolean().default(false),
  use_sliding_window: z.boolean().default(false),
  sliding_window: z.int().positive().nullable().default(DEFAULT_SLIDING_WINDOW),
  max_window_layers: z.int().nonnegative().default(DEFAULT_MAX_WINDOW_LAYERS),
  layer_types: z.array(z.string()).nullish(),
  quantization_config: z.unknown().optional(),
});
type HuggingFaceConfig = z.infer<typeof HuggingFaceConfig>;

const ATTENTION_TYPES = ["full_attention", "sliding_attention"];

/**
 * Llama 3.1's scaling of rotary positions: dimension pairs with a long wavelength rotate `factor` times slower, those with a short one are
 * unchanged, and those between are interpolated.
 */
export interface RopeScaling {
  readonly factor: number;
  /** Wavelengths above originalContext / lowFrequencyFactor are long, below originalContext / highFrequencyFactor short. */
  readonly lowFrequencyFactor: number;
  readonly highFrequencyFactor: number;
  readonly originalContext: number;
}

/** Sizes and features of a decoder. D = width; H query heads share KV key/value heads; hd = headWidth, which need not be D / H. */
export interface ModelConfig {
  readonly layers: number;
  readonly width: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headWidth: number;
  readonly ffnWidth: number;
  readonly vocabulary: number;
  readonly ropeTheta: number;
  readonly ropeScaling: RopeScaling | null;
  readonly epsilon: number;
  /** The output head is the embedding matrix. */
  readonly tied: boolean;
  readonly queryKeyNorm: boolean;
  readonly projectionBias: boolean;
}

export function readModelConfig(files: CheckpointFiles): ModelConfig {
  return parseModelConfig(configBytes(files));
}

export function parseModelConfig(bytes: Uint8Array | string): ModelConfig {
  const config = parseConfig(bytes);
  const family = familyOf(config);
  if (config.hidden_act !== "silu") refuse("hidden_act", config.hidden_act, "silu");
  if (config.attention_bias) refuse("attention_bias", true, "only the biases of Qwen2's queries, keys and values");
  const unknownType = config.layer_types?.find((type) => !ATTENTION_TYPES.includes(type));
  if (unknownType !== undefined) refuse("layer_types", unknownType, ATTENTION_TYPES.join(" and "));
  if (config.mlp_bias) refuse("mlp_bias", true, "feed-forward layers without biases");
  if (config.partial_rotary_factor !== 1) refuse("partial_rotary_factor", config.partial_rotary_factor, "1");
  if (config.quantization_config)
    refuse("quantization_config", config.quantization_config, "float32, float16 and bfloat16 weights");
  const heads = config.num_attention_heads;
  const kvHeads = config.num_key_value_heads ?? heads;
  const headWidth = config.head_dim ?? family.headWidth ?? config.hidden_size / heads;
  if (!Number.isInteger(headWidth) || headWidth % 2 !== 0) refuse("head_dim", headWidth, "even head widths");
  if (heads % kvHeads !== 0) refuse("num_key_value_heads", kvHeads, "divisors of num_attention_heads");
  const rope = config.rope_parameters ?? config.rope_scaling;
  return {
    layers: config.num_hidden_layers,
    width: config.hidden_size,
    heads,
    kvHeads,
    headWidth,
    ffnWidth: config.intermediate_size,
    vocabulary: config.vocab_size,
    ropeTheta: rope?.rope_theta ?? config.rope_theta,
    ropeScaling: ropeScalingOf(config),
    epsilon: config.rms_norm_eps,
    tied: config.tie_word_embeddings,
    queryKeyNorm: family.queryKeyNorm,
    projectionBias: family.projectionBias,
  };
}

/** What limits the context, in tokens, by key: the model's positions, and its sliding window, beyond which full attention would be wrong. */
function contextLimits(files: CheckpointFiles): [key: string, tokens: number][] {
  const config = parseConfig(configBytes(files));
  const limits = { sliding_window: windowOf(config), max_position_embeddings: config.max_position_embeddings };
  return Object.entries(limits).flatMap(([key, tokens]) => (tokens === undefined ? [] : [[key, tokens]]));
}

/** Refuses a context that is too long for the model. */
export function checkContext(files: CheckpointFiles, contextTokens: number): void {
  for (const [key, tokens] of contextLimits(files)) {
    if (contextTokens <= tokens) continue;
    throw new MgrpoError(
      "config-invalid",
      `config.json: ${key} = ${tokens} is less than limits.contextTokens = ${contextTokens}: lower limits.contextTokens, or use another model`,
    );
  }
}

/** The longest context that `checkContext` accepts, in tokens; undefined if the model's config sets no limit. */
export function longestContext(files: CheckpointFiles): number | undefined {
  const limits = contextLimits(files).map(([, tokens]) => tokens);
  return limits.length > 0 ? Math.min(...limits) : undefined;
}

/** A `config.json` that Hugging Face libraries can read. */
export function writeModelConfig(config: ModelConfig, contextTokens: number): string {
  const { queryKeyNorm, projectionBias, ropeScaling } = config;
  const family = FAMILIES.find((one) => one.queryKeyNorm === queryKeyNorm && one.projectionBias === projectionBias);
  if (!family) {
    throw new MgrpoError("engine-unsupported", "no supported family has both projection biases and query/key norms");
  }
  return `${JSON.stringify(
    {
      architectures: [family.architecture],
      model_type: family.modelType,
      hidden_size: config.width,
      num_hidden_layers: config.layers,
      num_attention_heads: config.heads,
      num_key_value_heads: config.kvHeads,
      head_dim: config.headWidth,
      intermediate_size: config.ffnWidth,
      vocab_size: config.vocabulary,
      max_position_embeddings: contextTokens,
      rope_theta: config.ropeTheta,
      ...(ropeScaling && {
        rope_scaling: {
          rope_type: "llama3",
          factor: ropeScaling.factor,
          low_freq_factor: ropeScaling.lowFrequencyFactor,
          high_freq_factor: ropeScaling.highFrequencyFactor,
          original_max_position_embeddings: ropeScaling.originalContext,
        },
      }),
      rms_norm_eps: config.epsilon,
      hidden_act: "silu",
      attention_bias: false,
      attention_dropout: 0,
      use_sliding_window: false,
      tie_word_embeddings: config.tied,
      torch_dtype: "float32",
    },
    null,
    2,
  )}\n`;
}

function refuse(key: string, value: unknown, supported: string): never {
  throw new MgrpoError(
    "engine-unsupported",
    `config.json: ${key} = ${JSON.stringify(value)} is not supported: this engine supports ${supported}`,
  );
}

/** The name of the model's architecture, as in config.json's `architectures`. */
export const modelFamily = (files: CheckpointFiles): string => familyOf(parseConfig(configBytes(files))).architecture;

/** The content of config.json. Throws `checkpoint-damaged` if the checkpoint has none. */
export function configBytes(files: CheckpointFiles): Uint8Array {
  const file = files.get("config.json");
  if (file) return wholeFile(file);
  throw new MgrpoError("checkpoint-damaged", "config.json: not in the checkpoint: add the model's config.json");
}

/** Checks the family first: the config of another family may lack required keys, and is then unsupported, not damaged. */
function parseConfig(bytes: Uint8Array | string): HuggingFaceConfig {
  const named = parseJson(FamilyNames, bytes, "config.json", "checkpoint-damaged");
  familyOf(named);
  return parse(HuggingFaceConfig, named, "config.json", "checkpoint-damaged");
}

function familyOf({ architectures, model_type }: FamilyNames): Family {
  const family = architectures
    ? FAMILIES.find(({ architecture }) => architectures.includes(architecture))
    : FAMILIES.find(({ modelType }) => modelType === model_type);
  if (family) return family;
  const names = (of: (family: Family) => string) => FAMILIES.map(of).join(", ");
  return architectures
    ? refuse(
        "architectures",
        architectures,
        names(({ architecture }) => architecture),
      )
    : refuse(
        "model_type",
        model_type ?? null,
        names(({ modelType }) => modelType),
      );
}

function ropeScalingOf(config: HuggingFaceConfig): RopeScaling | null {
  const [key, rope] = config.rope_parameters
    ? ["rope_parameters", config.rope_parameters]
    : ["rope_scaling", config.rope_scaling];
  if (!rope) return null;
  if ((rope.partial_rotary_factor ?? 1) !== 1)
    refuse(`${key}.partial_rotary_factor`, rope.partial_rotary_factor, "rotary positions of whole heads");
  const type = rope.rope_type ?? rope.type ?? "default";
  if (type === "default") return null;
  if (type !== "llama3") refuse(`${key}.rope_type`, type, "unscaled rotary positions and those of llama3");
  const required = (name: "factor" | "low_freq_factor" | "high_freq_factor" | "original_max_position_embeddings") =>
    rope[name] ?? refuse(`${key}.${name}`, null, "llama3 positions with all their settings");
  const scaling = {
    factor: required("factor"),
    lowFrequencyFactor: required("low_freq_factor"),
    highFrequencyFactor: required("high_freq_factor"),
    originalContext: required("original_max_position_embeddings"),
  };
  if (scaling.highFrequencyFactor > scaling.lowFrequencyFactor) return scaling;
  return refuse(`${key}.high_freq_factor`, scaling.highFrequencyFactor, "values above low_freq_factor");
}

/** The shortest attention window of any layer, in tokens; undefined if every layer attends to all tokens. */
function windowOf(config: HuggingFaceConfig): number | undefined {
  const { slidingWindow } = familyOf(config);
  const { sliding_window, use_sliding_window, layer_types, max_window_layers, num_hidden_layers } = config;
  const inSome = layer_types ? layer_types.includes("sliding_attention") : max_window_layers < num_hidden_layers;
  const slides = slidingWindow === "always" || (slidingWindow === "if used" && use_sliding_window && inSome);
  return slides ? (sliding_window ?? undefined) : undefined;
}
