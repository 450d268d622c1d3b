/**
 * @file The supported families of dense decoders, as data. The model never checks a family's name: it reads these traits from the parsed
 * config. Defaults are those of transformers' configuration classes.
 */

export interface Family {
  /** `architectures` and `model_type` of config.json. */
  readonly architecture: string;
  readonly modelType: string;
  /** RMS norms on the heads of queries and keys. */
  readonly queryKeyNorm: boolean;
  /** Biases on the projections to queries, keys and values. */
  readonly projectionBias: boolean;
  /** Default of `head_dim`; undefined: hidden_size / num_attention_heads. */
  readonly headWidth?: number;
  /** When `sliding_window` applies: always, with `use_sliding_window`, or never. */
  readonly slidingWindow: "always" | "if used" | "never";
}

export const FAMILIES: readonly Family[] = [
  {
    architecture: "Qwen3ForCausalLM",
    modelType: "qwen3",
    queryKeyNorm: true,
    projectionBias: false,
    headWidth: 128,
    slidingWindow: "if used",
  },
  {
    architecture: "Qwen2ForCausalLM",
    modelType: "qwen2",
    queryKeyNorm: false,
    projectionBias: true,
    slidingWindow: "if used",
  },
  {
    architecture: "LlamaForCausalLM",
    modelType: "llama",
    queryKeyNorm: false,
    projectionBias: false,
    slidingWindow: "never",
  },
  {
    architecture: "MistralForCausalLM",
    modelType: "mistral",
    queryKeyNorm: false,
    projectionBias: false,
    slidingWindow: "always",
  },
];

/** Default of `sliding_window`, in each family that applies it. */
export const DEFAULT_SLIDING_WINDOW = 4096;
/** Default of `max_window_layers`: layers below this one attend to all tokens (Qwen). */
export const DEFAULT_MAX_WINDOW_LAYERS = 28;
