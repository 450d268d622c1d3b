/**
 * @file Small base models trained only on demonstrations: a tokenizer of their words, a Qwen3 decoder of a given shape, and how
 * `mgrpo pretrain` trains it by imitation. The files of a model are a function of its design and its demonstrations alone.
 */
import * as z from "zod";
import type { Arm } from "../../core/contracts/config.ts";
import { parse } from "../../core/contracts/parse.ts";
import type { BaseModel, Demonstration } from "../../core/recipe.ts";
import { buildTokenizer, type TokenizerDesign } from "./tokenizer.ts";

/** The sizes of a decoder. */
export interface ModelShape {
  readonly layers: number;
  /** Of the residual stream; a multiple of 2 * `heads`. */
  readonly width: number;
  readonly heads: number;
  /** A divisor of `heads`. */
  readonly keyValueHeads: number;
  /** Of the feed-forward layer. */
  readonly ffn: number;
}

/** A base model to pretrain. Absent settings have the defaults of `smallModel`. */
export interface SmallModel {
  /** The agent that the model is for, and the arm in whose team the agent works. */
  readonly agent: string;
  readonly arm?: Arm;
  /** Where its checkpoint goes. */
  readonly folder: string;
  /** An endless sequence, the same on every call. */
  readonly demonstrations: () => Iterable<Demonstration>;
  /** Openings of the agent's tool calls, each one token (`callOpening`). */
  readonly openings: readonly string[];
  /** Tokens of demonstrations to train on. */
  readonly tokens: number;
  readonly seed?: number;
  readonly shape?: ModelShape;
  readonly tokenizer?: Omit<TokenizerDesign, "openings">;
  /** The model's context length. */
  readonly contextTokens?: number;
}

/** Number of demonstrations that a tokenizer is trained on. */
const TOKENIZER_SAMPLE = 3000;

const DEFAULT_SHAPE: ModelShape = { layers: 2, width: 64, heads: 4, keyValueHeads: 2, ffn: 128 };
/** The most frequent words of the demonstrations are one token each; any other text is bytes. */
const DEFAULT_TOKENIZER: Omit<TokenizerDesign, "openings"> = { kind: "byte-pairs", merges: 0, words: 4000 };

const Size = z.int().positive();

const Shape = z
  .strictObject({ layers: Size, width: Size, heads: Size, keyValueHeads: Size, ffn: Size })
  .refine(({ width, heads }) => width % (2 * heads) === 0, {
    path: ["width"],
    error: "must be a multiple of 2 * heads: each head has an even width",
  })
  .refine(({ heads, keyValueHeads }) => heads % keyValueHeads === 0, {
    path: ["keyValueHeads"],
    error: "must divide heads",
  });

const Sizes = z.strictObject({ shape: Shape, tokens: z.number().positive(), contextTokens: Size });

/** An entry of a recipe's `baseModels`. Throws `recipe-invalid` for sizes that no model can have. */
export function smallModel({
  agent,
  arm = "mgrpo",
  folder,
  demonstrations,
  openings,
  tokens,
  seed = 1,
  shape = DEFAULT_SHAPE,
  tokenizer = DEFAULT_TOKENIZER,
  contextTokens = 640,
}: SmallModel): BaseModel {
  parse(Sizes, { shape, tokens, contextTokens }, `smallModel() for agent '${agent}'`, "recipe-invalid");
  return {
    agent,
    arm,
    folder,
    seed,
    files: () => filesOf(shape, contextTokens, buildTokenizer(first(demonstrations()), { ...tokenizer, openings })),
    demonstrations,
    training: { tokens, batchTokens: 1024, learningRate: 2.5e-3, warmUp: 0.02 },
  };
}

function* first(demonstrations: Iterable<Demonstration>): Generator<Demonstration> {
  let count = 0;
  for (const demonstration of demonstrations) {
    if (count++ === TOKENIZER_SAMPLE) return;
    yield demonstration;
  }
}

/** A checkpoint in the Hugging Face layout, without its weights. */
function filesOf(
  shape: ModelShape,
  contextTokens: number,
  tokenizer: ReadonlyMap<string, string>,
): ReadonlyMap<string, Uint8Array> {
  const json = (value: unknown) => `${JSON.stringify(value, null, 2)}\n`;
  const { added_tokens: added } = JSON.parse(tokenizer.get("tokenizer.json") ?? "") as {
    added_tokens: { id: number; content: string }[];
  };
  const idOf = (content: string) => added.find((token) => token.content === content)?.id;
  const config = {
    architectures: ["Qwen3ForCausalLM"],
    model_type: "qwen3",
    hidden_size: shape.width,
    num_hidden_layers: shape.layers,
    num_attention_heads: shape.heads,
    num_key_value_heads: shape.keyValueHeads,
    head_dim: shape.width / shape.heads,
    intermediate_size: shape.ffn,
    vocab_size: Math.max(...added.map(({ id }) => id)) + 1,
    max_position_embeddings: contextTokens,
    rope_theta: 10000,
    rms_norm_eps: 1e-6,
    hidden_act: "silu",
    attention_bias: false,
    tie_word_embeddings: true,
    torch_dtype: "float32",
    eos_token_id: idOf("<|im_end|>"),
    pad_token_id: idOf("<|endoftext|>"),
  };
  const generation = {
    do_sample: true,
    temperature: 1,
    eos_token_id: config.eos_token_id,
    pad_token_id: config.pad_token_id,
  };
  const texts = [...tokenizer, ["config.json", json(config)], ["generation_config.json", json(generation)]] as const;
  return new Map(texts.map(([file, text]) => [file, new TextEncoder().encode(text)]));
}
