/**
 * @file Builds the tokenizer of a base model from its demonstrations, as `tokenizer.json` and `tokenizer_config.json` that Hugging Face's
 * libraries read. Two kinds: byte pairs, with the most frequent words whole, and unigram. Both split text by one pattern, which
 * attaches spaces to lower-case words and punctuation, so that a name has the same tokens after them as at the start of a line. Both
 * write the opening of a tool call, which never varies, as one added token.
 */
import type { Demonstration } from "../../core/recipe.ts";
import { inByteAlphabet, trainBytePairs } from "./byte-pairs.ts";

/** Qwen's special tokens. Their ids follow the vocabulary, in this order. */
const SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
const TAGS = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<answer>", "</answer>"];

/** Role headers; up to three digits; names; other words with their spaces; punctuation with its spaces; remaining spaces. */
const PATTERN = [
  String.raw`(?:system|user|assistant)\n`,
  String.raw`\p{N}{1,3}`,
  String.raw` ?\p{Lu}[\p{L}\p{M}'’-]*`,
  String.raw` ?\p{L}[\p{L}\p{M}'’-]* ?`,
  String.raw` ?[^\s\p{L}\p{N}]+(?: [^\s\p{L}\p{N}]+)?[ \n]?`,
  String.raw`\s`,
].join("|");

/** Qwen's layout without tools or thinking: models of this size learn their tools from demonstrations, as its first line declares. */
const CHAT_TEMPLATE = `{#- mgrpo: tools learned from demonstrations; nothing describes them #}
{%- for message in messages %}
{%- if message.role == "tool" %}
{%- if loop.first or messages[loop.index0 - 1].role != "tool" %}{{- "<|im_start|>user" }}{%- endif %}
{{- "\\n<tool_response>\\n" + message.content + "\\n</tool_response>" }}
{%- if loop.last or messages[loop.index0 + 1].role != "tool" %}{{- "<|im_end|>\\n" }}{%- endif %}
{%- else %}
{{- "<|im_start|>" + message.role + "\\n" + message.content + "<|im_end|>\\n" }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- "<|im_start|>assistant\\n" }}{%- endif %}`;

/** The vocabulary of a base model: 256 bytes, so that every text has tokens, at most `merges` longer pieces, whole words, and added tokens. */
export interface TokenizerDesign {
  readonly kind: "byte-pairs" | "unigram";
  readonly merges: number;
  /** How many of the most frequent words are single tokens without merges that build them (byte pairs only). */
  readonly words?: number;
  /** Openings of the agent's tool calls, each one token. */
  readonly openings: readonly string[];
}

/** The opening of a tool call, up to the argument that the model fills in. */
export function callOpening(name: string, argument: string, fixed: Readonly<Record<string, string>> = {}): string {
  const before = Object.entries(fixed).map(([key, value]) => `"${key}": "${value}", `);
  return `\n{"name": "${name}", "arguments": {${before.join("")}"${argument}": "`;
}

/** Closes a tool call's JSON. */
const CLOSING = '"}}\n';

export function buildTokenizer(demonstrations: Iterable<Demonstration>, design: TokenizerDesign): Map<string, string> {
  const added = [...SPECIAL, ...TAGS, ...design.openings, CLOSING];
  const counts = wordCounts(demonstrations, added);
  const trained = trainBytePairs(counts, design.merges);
  const model =
    design.kind === "byte-pairs"
      ? bytePairModel([...trained.pieces, ...mostFrequent(counts, design.words ?? 0)], trained.merges)
      : unigramModel(trained.pieces, trained.counts);
  const tokenizer = {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: added.map((content, i) => ({
      id: model.size + i,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: SPECIAL.includes(content),
    })),
    normalizer: null,
    pre_tokenizer: {
      type: "Sequence",
      pretokenizers: [
        { type: "Split", pattern: { Regex: PATTERN }, behavior: "Isolated", invert: false },
        { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false },
      ],
    },
    post_processor: null,
    decoder: { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false },
    model: model.json,
  };
  const config = {
    tokenizer_class: "PreTrainedTokenizerFast",
    eos_token: "<|im_end|>",
    pad_token: "<|endoftext|>",
    clean_up_tokenization_spaces: false,
    additional_special_tokens: [],
    chat_template: CHAT_TEMPLATE,
  };
  return new Map([
    ["tokenizer.json", `${JSON.stringify(tokenizer)}\n`],
    ["tokenizer_config.json", `${JSON.stringify(config, null, 2)}\n`],
  ]);
}

function bytePairModel(pieces: readonly string[], merges: readonly (readonly [string, string])[]) {
  // A merge or a word can be a piece that is already in the vocabulary; it keeps one id.
  const vocab = Object.fromEntries([...new Set(pieces)].map((piece, id) => [piece, id]));
  return {
    size: Object.keys(vocab).length,
    json: {
      type: "BPE",
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: true,
      vocab,
      merges: merges.map(([a, b]) => `${a} ${b}`),
    },
  };
}

function mostFrequent(counts: ReadonlyMap<string, number>, words: number): string[] {
  const order = [...counts].sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1));
  return order.slice(0, words).map(([word]) => inByteAlphabet(word));
}

/** Pieces scored by the logarithm of their share. Pieces that only led to longer ones are dropped, except bytes. */
function unigramModel(pieces: readonly string[], counts: ReadonlyMap<string, number>) {
  const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
  const kept = [...new Set(pieces)].filter((piece) => piece.length === 1 || (counts.get(piece) ?? 0) > 0);
  const vocab = [
    ["<unk>", UNKNOWN_LOG_PROB],
    ...kept.map((piece) => [piece, Math.log(Math.max(counts.get(piece) ?? 0, RARE_COUNT) / total)]),
  ];
  return { size: vocab.length, json: { type: "Unigram", unk_id: 0, vocab, byte_fallback: false } };
}

/** Pseudo-count of a byte that is never a piece of its own in the corpus. */
const RARE_COUNT = 0.01;
/** Log-prob of `<unk>`. Every byte is a piece, so no text needs it. */
const UNKNOWN_LOG_PROB = -100;

/** Counts the words of the demonstrations as the pre-tokenizer splits them. */
function wordCounts(demonstrations: Iterable<Demonstration>, added: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  const cut = new RegExp(PATTERN, "gu");
  const separators = new RegExp(added.map((token) => token.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|"), "u");
  for (const { prompt, turns } of demonstrations) {
    const texts = ["user\n", "assistant\n", prompt, ...turns.flatMap(({ text, responses }) => [text, ...responses])];
    for (const part of texts.flatMap((text) => text.split(separators))) {
      for (const [word] of part.matchAll(cut)) counts.set(word, (counts.get(word) ?? 0) + 1);
    }
  }
  return counts;
}
