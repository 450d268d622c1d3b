/**
 * @file A checkpoint's tokenizer and chat template, on Hugging Face's libraries. It opens up to three instances of one tokenizer.json:
 *
 *   template    unchanged, for text that this program wrote: `<|im_start|>` is one control token
 *   continued   without the space that some tokenizers put before a text's first word, for template text that follows other text
 *   data        as continued, and without the control tokens in vocabulary and added tokens: untrusted text becomes ordinary tokens only
 *
 * Behavior of the library (0.2.0) that matters here: it adds added tokens to the model's vocabulary, so a word-level model matches them in
 * any text; a WordLevel model takes its unknown token only from tokenizer_config.json; a Unigram model ignores byte_fallback; `decode` cleans up
 * spaces by default.
 */
import { Tokenizer as Library } from "@huggingface/tokenizers";
import { parseJson } from "../../core/contracts/parse.ts";
import { errorText } from "../../core/errors.ts";
import type { ChatMessage, CheckpointFiles, Tokenizer } from "../../core/ports.ts";
import { CONFIG, openTemplate, TokenizerConfig } from "./chat-template.ts";
import {
  checkCoverage,
  damaged,
  fileOf,
  generationEnds,
  isControlToken,
  readTokenizerJson,
  TOKENIZER,
  type TokenizerJson,
  unknownToken,
  withoutControlTokens,
  withoutLeadingSpace,
} from "./vocabulary.ts";

const MAXIMUM_CACHED_TEXTS = 1000;
/** Longer texts are not cached: they could fill the memory. */
const MAXIMUM_CACHED_CHARACTERS = 20_000;

/** Throws `tokenizer-damaged`, or `engine-unsupported` for a kind of model that the library encodes wrongly, with the file and the fault. */
export function openTokenizer(files: CheckpointFiles): Tokenizer {
  const json = readTokenizerJson(files);
  const config = parseJson(TokenizerConfig, fileOf(files, CONFIG), CONFIG, "tokenizer-damaged");
  const unknown = unknownToken(json, config.unk_token ?? undefined);
  checkCoverage(json, unknown);
  const libraryConfig = { ...config, unk_token: unknown, clean_up_tokenization_spaces: false };
  const template = openLibrary(json, libraryConfig);
  const data = openLibrary(withoutLeadingSpace(withoutControlTokens(json, unknown)), libraryConfig);
  const continued =
    withoutLeadingSpace(json) === json ? template : openLibrary(withoutLeadingSpace(json), libraryConfig);
  const controlTokens = new Map(
    json.added_tokens.filter((token) => isControlToken(token, unknown)).map((t) => [t.content, t.id]),
  );
  const controlIds = new Set(controlTokens.values());
  const { file, render, knowsTools } = openTemplate(files, config);

  const encodeText = (text: string) => {
    const ids = encode(data, text);
    const forged = ids.find((id) => controlIds.has(id));
    if (forged === undefined) return ids;
    throw damaged(
      TOKENIZER,
      `plain text became the added token ${forged}: its content must not be an ordinary piece`,
      text,
    );
  };
  /** What comes before the first control token continues earlier text, so no space is put before it. */
  const encodeTemplate = (text: string) => {
    if (continued === template) return encode(template, text);
    const starts = [...controlTokens.keys()].map((token) => text.indexOf(token)).filter((at) => at >= 0);
    const first = Math.min(text.length, ...starts);
    return [...encode(continued, text.slice(0, first)), ...encode(template, text.slice(first))];
  };
  const endOfTurn = endOfTurnOf(file, render, controlTokens);
  return {
    encodeText: cached(encodeText),
    encodeTemplate,
    decode: (tokens) => decode(template, tokens),
    render,
    knowsTools,
    endOfTurn,
    ends: [...new Set([endOfTurn, ...generationEnds(files, json)])],
  };
}

/** Caches encodings: the K rollouts of a question read the same few texts. The cache is emptied when it is full. */
function cached(encodeText: (text: string) => number[]): (text: string) => number[] {
  const known = new Map<string, readonly number[]>();
  return (text) => {
    const found = known.get(text);
    if (found) return [...found];
    const ids = encodeText(text);
    if (text.length > MAXIMUM_CACHED_CHARACTERS) return ids;
    if (known.size >= MAXIMUM_CACHED_TEXTS) known.clear();
    known.set(text, ids);
    return [...ids];
  };
}

function encode(library: Library, text: string): number[] {
  if (text === "") return [];
  const ids: readonly number[] = library.encode(text, { add_special_tokens: false }).ids;
  if (ids.every((id) => Number.isInteger(id))) return [...ids];
  throw damaged(
    TOKENIZER,
    "text has a piece that is not in the vocabulary, and there is no unk_token to stand for it: add a model.unk_token",
    text,
  );
}

/** Ids without a piece, as in a padded embedding, decode to U+FFFD. */
function decode(library: Library, tokens: readonly number[]): string {
  let text = "";
  let known: number[] = [];
  const flush = () => {
    if (known.length > 0) text += library.decode(known, { skip_special_tokens: false });
    known = [];
  };
  for (const token of tokens) {
    if (library.id_to_token(token) !== undefined) known.push(token);
    else {
      flush();
      text += "\uFFFD";
    }
  }
  flush();
  return text;
}

function openLibrary(json: TokenizerJson, config: object): Library {
  try {
    return new Library(json, config);
  } catch (cause) {
    throw damaged(TOKENIZER, errorText(cause), undefined, cause);
  }
}

/** The control token that the template, which is in `file`, writes after an assistant's message. */
function endOfTurnOf(file: string, render: Tokenizer["render"], controlTokens: ReadonlyMap<string, number>): number {
  const words = "words";
  const messages: ChatMessage[] = [
    { role: "user", content: "question" },
    { role: "assistant", content: words },
  ];
  const text = render(messages, [], false);
  const after = text.slice(text.lastIndexOf(words) + words.length);
  const ends = [...controlTokens]
    .filter(([content]) => after.startsWith(content))
    .sort(([a], [b]) => b.length - a.length);
  const end = ends[0]?.[1];
  if (end !== undefined) return end;
  throw damaged(
    file,
    `chat_template ends an assistant's turn with ${JSON.stringify(after.slice(0, 20))}, not with an added token of ${TOKENIZER}: end it with one`,
  );
}
