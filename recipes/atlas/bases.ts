/**
 * @file The base models: two sizes, two kinds of tokenizer, and a third model with all tools for the single-agent arm. Made by
 * `npm run atlas:pretrain` from demonstrations alone; the files lie in models/.
 */
import { join } from "node:path";
import type { Arm } from "../../core/contracts/config.ts";
import type { BaseModel, Demonstration } from "../../core/recipe.ts";
import { demonstrationsOf } from "./demonstrations/demonstrations.ts";
import { buildTokenizer, callOpening, type TokenizerDesign } from "./tokenizers/build.ts";

export const MODELS = join(import.meta.dirname, "models");
/** Positions the models are made for. */
export const CONTEXT_TOKENS = 640;

const SEED = 1;
/** Demonstrations that the tokenizers are trained on. */
const TOKENIZER_SAMPLE = 3000;

interface Shape {
  readonly layers: number;
  readonly width: number;
  readonly heads: number;
  readonly keyValueHeads: number;
  readonly ffn: number;
}

const LARGER: Shape = { layers: 3, width: 128, heads: 4, keyValueHeads: 2, ffn: 256 };
const SMALLER: Shape = { layers: 3, width: 96, heads: 4, keyValueHeads: 2, ffn: 256 };

const SEARCH = callOpening("search", "query");
const VISIT = callOpening("visit", "title");
const CALCULATE = callOpening("calculate", "expression");
const delegateTo = (agent: string) => callOpening("delegate", "task", { agent });

const PLANNER = { kind: "byte-pairs", merges: 200, words: 900 } as const;

export const baseModels: readonly BaseModel[] = [
  base("main", "mgrpo", "main", LARGER, { ...PLANNER, openings: [delegateTo("searcher"), CALCULATE] }, 4e6),
  base("searcher", "mgrpo", "searcher", SMALLER, { kind: "unigram", merges: 1500, openings: [SEARCH, VISIT] }, 8e6),
  base("main", "single-agent", "single", LARGER, { ...PLANNER, openings: [SEARCH, VISIT, CALCULATE] }, 12e6),
];

/** A planner that has somebody else to ask for countries: of recipe atlas-two-subs. */
export const plannerOfTwo = base(
  "main",
  "mgrpo",
  "main-of-two",
  LARGER,
  { ...PLANNER, openings: [delegateTo("searcher"), delegateTo("finder"), CALCULATE] },
  4e6,
);

function base(agent: string, arm: Arm, name: string, shape: Shape, design: TokenizerDesign, tokens: number): BaseModel {
  return {
    agent,
    arm,
    folder: join(MODELS, name),
    seed: SEED,
    files: () => filesOf(shape, buildTokenizer(sampleOf(name), design)),
    demonstrations: () => demonstrationsOf(name, SEED),
    training: { tokens, batchTokens: 1024, learningRate: 2.5e-3, warmUp: 0.02 },
  };
}

function* sampleOf(name: string): Generator<Demonstration> {
  let count = 0;
  for (const demonstration of demonstrationsOf(name, SEED)) {
    if (count++ === TOKENIZER_SAMPLE) return;
    yield demonstration;
  }
}

function filesOf(shape: Shape, tokenizer: ReadonlyMap<string, string>): ReadonlyMap<string, Uint8Array> {
  const json = (value: unknown) => `${JSON.stringify(value, null, 2)}\n`;
  const parsed = JSON.parse(tokenizer.get("tokenizer.json") ?? "") as {
    added_tokens: { id: number; content: string }[];
  };
  const idOf = (content: string) => parsed.added_tokens.find((token) => token.content === content)?.id;
  const config = {
    architectures: ["Qwen3ForCausalLM"],
    model_type: "qwen3",
    hidden_size: shape.width,
    num_hidden_layers: shape.layers,
    num_attention_heads: shape.heads,
    num_key_value_heads: shape.keyValueHeads,
    head_dim: shape.width / shape.heads,
    intermediate_size: shape.ffn,
    vocab_size: Math.max(...parsed.added_tokens.map(({ id }) => id)) + 1,
    max_position_embeddings: CONTEXT_TOKENS,
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
