/**
 * @file A checkpoint's tokenizer.json as data, and the variants that @huggingface/tokenizers gets: without control tokens, for text that must
 * not contain any; without the space that SentencePiece models put before a text's first word, for text that follows other text.
 */
import * as z from "zod";
import { parseJson } from "../../core/contracts/parse.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFiles } from "../../core/ports.ts";
import { wholeFile } from "../checkpoint/files.ts";

export const TOKENIZER = "tokenizer.json";
const GENERATION = "generation_config.json";
const CONFIG = "config.json";

const AddedToken = z.looseObject({
  id: z.int().nonnegative(),
  content: z.string().min(1),
  special: z.boolean().default(false),
});
type AddedToken = z.infer<typeof AddedToken>;

const Vocabulary = z.record(z.string(), z.int().nonnegative());
const ScoredPieces = z.array(z.tuple([z.string(), z.number()]));
const TokenizerComponent = z.looseObject({}).nullable().default(null);
const TokenizerJson = z.looseObject({
  added_tokens: z.array(AddedToken),
  normalizer: TokenizerComponent,
  pre_tokenizer: TokenizerComponent,
  post_processor: TokenizerComponent,
  decoder: TokenizerComponent,
  model: z.looseObject({
    type: z.string().optional(),
    vocab: z.union([Vocabulary, ScoredPieces]),
    merges: z.array(z.union([z.string(), z.tuple([z.string(), z.string()])])).optional(),
    unk_token: z.string().nullish(),
    unk_id: z.int().nullish(),
    byte_fallback: z.boolean().nullish(),
  }),
});
export type TokenizerJson = z.infer<typeof TokenizerJson>;

const Ends = z.looseObject({ eos_token_id: z.union([z.int(), z.array(z.int())]).nullish() });

export function readTokenizerJson(files: CheckpointFiles): TokenizerJson {
  const json = parseJson(TokenizerJson, fileOf(files, TOKENIZER), TOKENIZER, "tokenizer-damaged");
  return { ...json, pre_tokenizer: asInPython(json.pre_tokenizer) };
}

/** Refuses a tokenizer with tokens beyond the rows of the embedding. Returns the number of its token ids. */
export function checkVocabulary(files: CheckpointFiles, rows: number): number {
  const { added_tokens, model } = readTokenizerJson(files);
  const pieces = Array.isArray(model.vocab)
    ? model.vocab.map(([piece], id) => ({ content: piece, id }))
    : Object.entries(model.vocab).map(([content, id]) => ({ content, id }));
  const tokens = [...added_tokens, ...pieces];
  for (const { content, id } of tokens) {
    if (id < rows) continue;
    const fault = `token ${id} (${JSON.stringify(content)}) is beyond the ${rows} rows of the embedding (config.json: vocab_size)`;
    throw damaged(TOKENIZER, `${fault}: it belongs to another model, or the embedding was not resized for it`);
  }
  return new Set(tokens.map(({ id }) => id)).size;
}

/** The tokens that end generation, from generation_config.json or, if absent, config.json. */
export function generationEnds(files: CheckpointFiles, { added_tokens }: TokenizerJson): number[] {
  const name = files.has(GENERATION) ? GENERATION : CONFIG;
  const file = files.get(name);
  if (!file) return [];
  const { eos_token_id } = parseJson(Ends, wholeFile(file), name, "tokenizer-damaged");
  const ends = [eos_token_id ?? []].flat();
  const unknown = ends.find((end) => !added_tokens.some(({ id }) => id === end));
  if (unknown === undefined) return ends;
  throw damaged(
    TOKENIZER,
    `${name} ends generation with token ${unknown} (eos_token_id), which is not an added token: one of the two files belongs to another model`,
  );
}

/**
 * The token that text outside the vocabulary becomes. Only a word-level model takes the one that tokenizer_config.json names: in a BPE model
 * that name does nothing, and is often that of the token that ends a turn. @param named the one in tokenizer_config.json.
 */
export function unknownToken({ model }: TokenizerJson, named: string | undefined): string | undefined {
  const { vocab, merges, unk_token, unk_id } = model;
  if (Array.isArray(vocab)) return vocab[unk_id ?? -1]?.[0];
  return unk_token ?? (merges ? undefined : named);
}

/** Refuses a tokenizer that would silently drop text it cannot encode, or lose it where the original falls back to bytes. */
export function checkCoverage({ model, pre_tokenizer }: TokenizerJson, unknown: string | undefined): void {
  if (Array.isArray(model.vocab) && model.byte_fallback) {
    const fault =
      "a Unigram model with byte_fallback is not supported: text outside its vocabulary would become unk_id";
    throw new MgrpoError("engine-unsupported", `${TOKENIZER}: ${fault}: use a model with another tokenizer`);
  }
  if (unknown !== undefined || model.unk_id != null || model.byte_fallback) return;
  if (JSON.stringify(pre_tokenizer).includes('"ByteLevel"')) return;
  const fault = "no model.unk_token, byte_fallback or ByteLevel: text outside its vocabulary would vanish";
  throw damaged(TOKENIZER, `${fault}: add a model.unk_token`);
}

/**
 * Any added token except the unknown token, which any text may become, and runs of whitespace that are not special, which some tokenizers
 * add to keep them whole.
 */
export function isControlToken(token: AddedToken, unknown: string | undefined): boolean {
  return token.content !== unknown && (token.special || !/^\s+$/.test(token.content));
}

export function withoutControlTokens(json: TokenizerJson, unknown: string | undefined): TokenizerJson {
  const removed = new Set(
    json.added_tokens.filter((token) => isControlToken(token, unknown)).map(({ content }) => content),
  );
  const { vocab, merges } = json.model;
  return {
    ...json,
    added_tokens: json.added_tokens.filter(({ content }) => !removed.has(content) && content !== unknown),
    model: {
      ...json.model,
      // Unigram ids are positions: the piece stays, under a spelling that no normalized text contains.
      vocab: Array.isArray(vocab)
        ? vocab.map(([piece, score], id): [string, number] => [removed.has(piece) ? `\u0000${id}\u0000` : piece, score])
        : Object.fromEntries(Object.entries(vocab).filter(([piece]) => !removed.has(piece))),
      ...(merges && {
        merges: merges.filter(
          (merge) => !removed.has(typeof merge === "string" ? merge.replace(" ", "") : merge.join("")),
        ),
      }),
    },
  };
}

type TokenizerComponent = z.infer<typeof TokenizerComponent>;

const isolated = (Regex: string) => ({ type: "Split", pattern: { Regex }, behavior: "Isolated", invert: false });
const GPT2_SPLIT = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/**
 * Replaces what @huggingface/tokenizers (0.2.0) splits differently from Hugging Face's tokenizers: `Digits` only at 0 to 9, not at every numeral
 * (½, ٣); `ByteLevel` with U+FEFF as white space and U+0085 as none. Its `Split` is right about both.
 */
function asInPython(part: TokenizerComponent): TokenizerComponent {
  if (part?.["type"] === "Digits") return isolated(part["individual_digits"] === true ? "\\p{N}" : "\\p{N}+");
  if (part?.["type"] === "ByteLevel" && part["add_prefix_space"] === false && part["use_regex"] !== false) {
    return { type: "Sequence", pretokenizers: [isolated(GPT2_SPLIT), { ...part, use_regex: false }] };
  }
  const parts = part?.["pretokenizers"];
  return Array.isArray(parts)
    ? { ...part, pretokenizers: parts.map((one: TokenizerComponent) => asInPython(one)) }
    : part;
}

/** For text that follows other text. Returns the same object if the tokenizer puts no space before a text's first word. */
export function withoutLeadingSpace(json: TokenizerJson): TokenizerJson {
  const [normalizer, pre_tokenizer] = [withoutPrefix(json.normalizer), withoutPrefix(json.pre_tokenizer)];
  if (normalizer === json.normalizer && pre_tokenizer === json.pre_tokenizer) return json;
  return { ...json, normalizer, pre_tokenizer };
}

function withoutPrefix(part: TokenizerComponent): TokenizerComponent {
  if (!part) return part;
  if (part["type"] === "Prepend") return null;
  if (part["type"] === "Metaspace") {
    return part["prepend_scheme"] === "never" ? part : { ...part, prepend_scheme: "never", add_prefix_space: false };
  }
  if (part["add_prefix_space"] === true) return { ...part, add_prefix_space: false };
  for (const key of ["normalizers", "pretokenizers"]) {
    const parts = part[key];
    if (!Array.isArray(parts)) continue;
    const changed = parts.map((one: TokenizerComponent) => withoutPrefix(one));
    if (changed.some((one, i) => one !== parts[i])) return { ...part, [key]: changed.filter((one) => one !== null) };
  }
  return part;
}

export function fileOf(files: CheckpointFiles, name: string): Uint8Array {
  const file = files.get(name);
  if (file) return wholeFile(file);
  throw damaged(name, "the checkpoint has no such file: copy it from the model's Hugging Face folder");
}

export function damaged(file: string, fault: string, evidence?: unknown, cause?: unknown): MgrpoError {
  return new MgrpoError("tokenizer-damaged", `${file}: ${fault}`, { evidence, cause });
}
