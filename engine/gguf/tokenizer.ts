/**
 * @file A GGUF file's tokenizer as Hugging Face's `tokenizer.json` and `tokenizer_config.json`. GGUF stores the vocabulary, token types, and merges
 * or scores, but only the name of the pre-tokenizer, which llama.cpp implements in code. The pre-tokenizers here match
 * those of the original `tokenizer.json` files.
 */
import * as z from "zod";
import { MgrpoError } from "../../core/errors.ts";
import { specialTokenId } from "./metadata.ts";

type Metadata = Readonly<Record<string, unknown>>;

/** ggml's token types. */
const UNKNOWN = 2;
const CONTROL = 3;
const USER_DEFINED = 4;

const QWEN_SPLIT =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const LLAMA3_SPLIT = QWEN_SPLIT.replace("\\p{N}|", "\\p{N}{1,3}|");

const byteLevel = (useRegex: boolean) => ({
  type: "ByteLevel",
  add_prefix_space: false,
  trim_offsets: true,
  use_regex: useRegex,
});
const split = (regex: string) => ({ type: "Split", pattern: { Regex: regex }, behavior: "Isolated", invert: false });
const sequence = (...pretokenizers: readonly object[]) => ({ type: "Sequence", pretokenizers });

interface PreTokenizerSettings {
  readonly preTokenizer: object;
  readonly normalizer: object | null;
  /** A word that is in the vocabulary becomes one token, without merges. */
  readonly ignoreMerges: boolean;
}

/** Keyed by `tokenizer.ggml.pre`. */
const PRE_TOKENIZERS: Readonly<Record<string, PreTokenizerSettings>> = {
  "gpt-2": { preTokenizer: byteLevel(true), normalizer: null, ignoreMerges: false },
  smollm: {
    preTokenizer: sequence({ type: "Digits", individual_digits: true }, byteLevel(true)),
    normalizer: null,
    ignoreMerges: false,
  },
  qwen2: {
    preTokenizer: sequence(split(QWEN_SPLIT), byteLevel(false)),
    normalizer: { type: "NFC" },
    ignoreMerges: false,
  },
  "llama-bpe": { preTokenizer: sequence(split(LLAMA3_SPLIT), byteLevel(false)), normalizer: null, ignoreMerges: true },
};

const Vocabulary = z.object({
  tokens: z.array(z.string()).min(1),
  types: z.array(z.number()),
  merges: z.array(z.string()).optional(),
  scores: z.array(z.number()).optional(),
});
type Vocabulary = z.infer<typeof Vocabulary>;

/** @throws MgrpoError `tokenizer-damaged` or `engine-unsupported`; its message names the file. */
export function tokenizerFiles(path: string, metadata: Metadata): ReadonlyMap<string, string> {
  const vocabulary = vocabularyOf(path, metadata);
  const kind = metadata["tokenizer.ggml.model"];
  const json =
    kind === "gpt2" ? byteLevelJson(path, metadata, vocabulary) : sentencePieceJson(path, metadata, vocabulary);
  const tokenOf = (name: string) => vocabulary.tokens[specialTokenId(metadata, name) ?? -1] ?? null;
  const config = {
    tokenizer_class: "PreTrainedTokenizerFast",
    bos_token: tokenOf("bos"),
    eos_token: tokenOf("eos"),
    pad_token: tokenOf("padding"),
    unk_token: tokenOf("unknown"),
    add_bos_token: metadata["tokenizer.ggml.add_bos_token"] === true,
    clean_up_tokenization_spaces: false,
    chat_template: templateOf(path, metadata),
  };
  const text = (value: unknown) => `${JSON.stringify(value, null, 2)}\n`;
  return new Map([
    ["tokenizer.json", text(json)],
    ["tokenizer_config.json", text(config)],
  ]);
}

function vocabularyOf(path: string, metadata: Metadata): Vocabulary {
  const at = (name: string) => metadata[`tokenizer.ggml.${name}`];
  const raw = { tokens: at("tokens"), types: at("token_type"), merges: at("merges"), scores: at("scores") };
  const parsed = Vocabulary.safeParse(raw);
  if (parsed.success && parsed.data.types.length === parsed.data.tokens.length) return parsed.data;
  throw incomplete(path, "no complete vocabulary");
}

const incomplete = (path: string, fault: string) =>
  new MgrpoError("tokenizer-damaged", `${path}: its metadata has ${fault}: download it again`);

function templateOf(path: string, metadata: Metadata): string {
  const template = metadata["tokenizer.chat_template"];
  if (typeof template === "string") return template;
  throw new MgrpoError(
    "tokenizer-damaged",
    `${path} has no chat template: import the file of an instruction-tuned model`,
  );
}

/** Byte-level BPE, as in GPT-2 and its successors: the file contains the merges. */
function byteLevelJson(path: string, metadata: Metadata, vocabulary: Vocabulary): object {
  const pre = metadata["tokenizer.ggml.pre"];
  if (pre === undefined) {
    const advice = "use the model's Hugging Face folder, or a file from a newer converter";
    throw new MgrpoError("engine-unsupported", `${path}: its metadata names no pre-tokenizer: ${advice}`);
  }
  const name = String(pre);
  const settings = Object.hasOwn(PRE_TOKENIZERS, name) ? PRE_TOKENIZERS[name] : undefined;
  if (!settings) {
    const known = Object.keys(PRE_TOKENIZERS).join(", ");
    throw new MgrpoError(
      "engine-unsupported",
      `${path}: its pre-tokenizer '${name}' is not supported (supported: ${known}): use the model's Hugging Face folder`,
    );
  }
  if (!vocabulary.merges) throw incomplete(path, "no merges");
  return {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: addedTokens(vocabulary),
    normalizer: settings.normalizer,
    pre_tokenizer: settings.preTokenizer,
    post_processor: byteLevel(true),
    decoder: byteLevel(true),
    model: {
      type: "BPE",
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: "",
      end_of_word_suffix: "",
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: settings.ignoreMerges,
      vocab: idsByToken(vocabulary),
      merges: vocabulary.merges.map((merge) => splitMerge(merge)),
    },
  };
}

/** "a b" -> ["a", "b"]; the first piece may itself start with a space. */
function splitMerge(merge: string): [string, string] {
  const at = merge.indexOf(" ", 1);
  return [merge.slice(0, at), merge.slice(at + 1)];
}

/**
 * SentencePiece's BPE, as in Llama 2 and Mistral: the file has scores, from which the merges are derived. A text gets a leading space unless
 * the metadata says otherwise.
 */
function sentencePieceJson(path: string, metadata: Metadata, vocabulary: Vocabulary): object {
  const kind = metadata["tokenizer.ggml.model"];
  if (kind !== "llama")
    throw new MgrpoError(
      "engine-unsupported",
      `${path}: its tokenizer model '${kind}' is not supported: use the model's Hugging Face folder`,
    );
  if (!vocabulary.scores) throw incomplete(path, "no scores");
  const addsSpace = metadata["tokenizer.ggml.add_space_prefix"] !== false;
  const unknown = vocabulary.tokens[vocabulary.types.indexOf(UNKNOWN)] ?? null;
  return {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: addedTokens(vocabulary),
    normalizer: {
      type: "Sequence",
      normalizers: [
        ...(addsSpace ? [{ type: "Prepend", prepend: "▁" }] : []),
        { type: "Replace", pattern: { String: " " }, content: "▁" },
      ],
    },
    pre_tokenizer: null,
    post_processor: null,
    decoder: {
      type: "Sequence",
      decoders: [
        { type: "Replace", pattern: { String: "▁" }, content: " " },
        { type: "ByteFallback" },
        { type: "Fuse" },
        ...(addsSpace ? [{ type: "Strip", content: " ", start: 1, stop: 0 }] : []),
      ],
    },
    model: {
      type: "BPE",
      dropout: null,
      unk_token: unknown,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: true,
      byte_fallback: true,
      ignore_merges: false,
      vocab: idsByToken(vocabulary),
      merges: mergesByScore(vocabulary.tokens, vocabulary.scores),
    },
  };
}

/** Every way to merge two pieces into a third, highest-scoring merged piece first, in the order of transformers' converter. */
function mergesByScore(tokens: readonly string[], scores: readonly number[]): [string, string][] {
  const ids = new Map(tokens.map((token, id) => [token, id]));
  const merges = tokens.flatMap((token, id) => {
    const characters = Array.from(token);
    const ways = characters.slice(1).flatMap((_, i) => {
      const [left, right] = [characters.slice(0, i + 1).join(""), characters.slice(i + 1).join("")];
      const [l, r] = [ids.get(left), ids.get(right)];
      return l === undefined || r === undefined ? [] : [{ left, right, l, r, score: scores[id] ?? 0 }];
    });
    return ways.sort((a, b) => a.l - b.l || a.r - b.r);
  });
  const length = (text: string) => Array.from(text).length;
  merges.sort((a, b) => b.score - a.score || length(b.left) - length(a.left) || length(b.right) - length(a.right));
  return merges.map(({ left, right }) => [left, right]);
}

const idsByToken = ({ tokens }: Vocabulary): Readonly<Record<string, number>> =>
  Object.fromEntries(tokens.map((token, id) => [token, id]));

function addedTokens({ tokens, types }: Vocabulary): object[] {
  return tokens.flatMap((content, id) => {
    const type = types[id];
    if (type !== CONTROL && type !== USER_DEFINED && type !== UNKNOWN) return [];
    const special = type !== USER_DEFINED;
    return [{ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special }];
  });
}
