/**
 * @file The work that every side of the comparison does, as one JSON file that each of them reads: our engine, TRL and llama.cpp. The same size, seed and
 * tokenizer give the same file.
 */
import * as z from "zod";
import { LoraConfig } from "../../core/contracts/lora.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Tokenizer } from "../../core/ports.ts";
import { stream } from "../../core/random.ts";

export const Work = z.strictObject({
  seed: z.int(),
  /** Compute threads of each side. */
  threads: z.int().positive(),
  /** Measured GRPO steps of each side; one more, the first, warms up. */
  rounds: z.int().positive(),
  /** One per question: its text, and the tokens into which every side must split it. Questions share no prefix. */
  prompts: z.array(z.strictObject({ text: z.string(), tokens: z.array(z.int()) })).min(1),
  /** K rollouts of each question. */
  rollouts: z.int().min(2),
  /** Sampled tokens of a rollout, the same number for all: none ends early. */
  newTokens: z.int().positive(),
  lora: LoraConfig,
  optimizer: z.strictObject({
    learningRate: z.number(),
    beta1: z.number(),
    beta2: z.number(),
    epsilon: z.number(),
    weightDecay: z.number(),
    maxGradientNorm: z.number(),
  }),
  clip: z.strictObject({ low: z.number(), high: z.number() }),
  /** Sampling alone: as many sequences as there are questions, each with a prompt of its own. */
  decoding: z.strictObject({
    /** Measured laps of each side, after one that warms up. */
    rounds: z.int().positive(),
    promptTokens: z.int().positive(),
    newTokens: z.int().positive(),
  }),
});
export type Work = z.infer<typeof Work>;

export type WorkSize = Pick<Work, "rounds" | "rollouts" | "newTokens" | "decoding"> & {
  readonly questions: number;
  readonly promptTokens: number;
};

export const FULL: WorkSize = {
  rounds: 3,
  questions: 8,
  promptTokens: 300,
  rollouts: 8,
  newTokens: 48,
  decoding: { rounds: 5, promptTokens: 64, newTokens: 64 },
};
/** Shows in minutes that every side runs. Its figures mean nothing. */
export const SMOKE: WorkSize = {
  rounds: 1,
  questions: 2,
  promptTokens: 24,
  rollouts: 2,
  newTokens: 4,
  decoding: { rounds: 1, promptTokens: 8, newTokens: 4 },
};

const SEED = 1;
const THREADS = 2;
const OPTIMIZER = { learningRate: 1e-4, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0, maxGradientNorm: 1 };
/** Tokens between the starts of a question's prompts in two consecutive laps. */
const STRIDE = 7;

export function makeWork({ questions, promptTokens, ...size }: WorkSize, tokenizer: PromptTokenizer): Work {
  const prompts = Array.from({ length: questions }, (_, question) => makePrompt(question, promptTokens, tokenizer));
  const settings = { lora: LoraConfig.parse({}), optimizer: OPTIMIZER, clip: { low: 0.2, high: 0.28 } };
  return { seed: SEED, threads: THREADS, prompts, ...size, ...settings };
}

/** What `makeWork` needs of a model's tokenizer. */
export interface PromptTokenizer extends Pick<Tokenizer, "encodeText" | "decode"> {
  readonly vocabulary: number;
}

/** A random text of `count` single-token words, and its tokens. */
function makePrompt(question: number, count: number, { vocabulary, encodeText, decode }: PromptTokenizer) {
  const { integer } = stream(SEED, "peers", "prompt", question);
  const tokens: number[] = [];
  for (let draws = 0; tokens.length < count; draws++) {
    if (draws > 1000 * count)
      throw damaged(
        `has too few single-token words: at least 1 in 1000 of its ${vocabulary} tokens must be whole words`,
      );
    const token = integer(vocabulary);
    const word = decode([token]);
    const [only, ...others] = /^ [a-z]{2,}$/.test(word) ? encodeText(word) : [];
    if (only === token && others.length === 0) tokens.push(token);
  }
  const text = decode(tokens);
  if (encodeText(text).join() !== tokens.join()) throw damaged("splits a text of single-token words into other tokens");
  return { text, tokens };
}

const damaged = (fault: string) => new MgrpoError("tokenizer-damaged", `the model's tokenizer ${fault}: use SmolLM2's`);

/** The prompts of one lap of sampling alone. They differ from lap to lap, so that no earlier lap's cache is of use. */
export function decodingPrompts({ prompts, decoding: { promptTokens } }: Work, lap: number): number[][] {
  return prompts.map(({ tokens }) => {
    const start = (STRIDE * lap) % (tokens.length - promptTokens + 1);
    return tokens.slice(start, start + promptTokens);
  });
}

/** The reward of a rollout on every side: the share of even numbers among its token ids. It depends only on what was sampled. */
export const rewardOf = (tokens: readonly number[]): number =>
  tokens.filter((token) => token % 2 === 0).length / tokens.length;
