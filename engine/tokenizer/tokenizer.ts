/**
 * @file A checkpoint's own tokenizer and chat template, by Hugging Face's libraries. Instances of the same tokenizer.json:
 *
 *   template  as it is: text that this program wrote, where `<|im_start|>` is one special token
 *             (and another for text that goes on after other text, where the tokenizer puts a space before a text's first word)
 *   data      with every added token taken out of it, and out of its vocabulary: whatever the text says, it spells it in ordinary pieces
 *
 * What the library (0.2.0) does that one must know: it puts added tokens into the model's vocabulary, so that a word-level model finds
 * them in any text; a WordLevel model takes its unknown token from tokenizer_config.json only; `decode` tidies spaces unless told not to.
 */
import { Tokenizer as Library } from "@huggingface/tokenizers";
import { parseJson } from "../../core/contracts/parse.ts";
import type { ChatMessage, CheckpointFiles, Tokenizer } from "../../core/ports.ts";
import { CONFIG, openTemplate, TokenizerConfig } from "./chat-template.ts";
import {
  checkCoverage,
  damaged,
  fileOf,
  generationEnds,
  isControlToken,
  messageOf,
  readTokenizer,
  TOKENIZER,
  type TokenizerJson,
  withoutAddedTokens,
  withoutLeadingSpace,
} from "./vocabulary.ts";

const REMEMBERED_TEXTS = 1000;

/** Refuses a damaged one with `tokenizer-damaged`, the file and the fault. */
export function openTokenizer(files: CheckpointFiles): Tokenizer {
  const json = readTokenizer(files);
  const config = parseJson(TokenizerConfig, fileOf(files, CONFIG), CONFIG, "tokenizer-damaged");
  const unknown = json.model.unk_token ?? config.unk_token ?? undefined;
  checkCoverage(json, unknown);
  const libraryConfig = { ...config, unk_token: unknown, clean_up_tokenization_spaces: false };
  const template = openLibrary(json, libraryConfig);
  const data = openLibrary(withoutLeadingSpace(withoutAddedTokens(json, unknown)), libraryConfig);
  const goingOn = withoutLeadingSpace(json) === json ? template : openLibrary(withoutLeadingSpace(json), libraryConfig);
  const markers = new Map(
    json.added_tokens.filter((token) => isControlToken(token, unknown)).map((t) => [t.content, t.id]),
  );
  const markerIds = new Set(markers.values());
  const render = openTemplate(files, config);

  const encodeText = (text: string) => {
    const ids = encode(data, text);
    const forged = ids.find((id) => markerIds.has(id));
    if (forged === undefined) return ids;
    throw damaged(
      TOKENIZER,
      `plain text became the added token ${forged}: its content must not be an ordinary piece`,
      text,
    );
  };
  /** Up to its first marker, a template's text goes on after what stands before it. */
  const encodeTemplate = (text: string) => {
    if (goingOn === template) return encode(template, text);
    const starts = [...markers.keys()].map((marker) => text.indexOf(marker)).filter((at) => at >= 0);
    const first = Math.min(text.length, ...starts);
    return [...encode(goingOn, text.slice(0, first)), ...encode(template, text.slice(first))];
  };
  const endOfTurn = endOfTurnOf(render, markers);
  return {
    encodeText: remembering(encodeText),
    encodeTemplate,
    decode: (tokens) => decode(template, tokens),
    render,
    endOfTurn,
    ends: [...new Set([endOfTurn, ...generationEnds(files, json)])],
  };
}

/** The K rollouts of a question read the same few texts over and over, and encoding one takes longer than everything else in a turn. */
function remembering(encodeText: (text: string) => number[]): (text: string) => number[] {
  const known = new Map<string, readonly number[]>();
  return (text) => {
    const ids = known.get(text) ?? encodeText(text);
    if (known.size >= REMEMBERED_TEXTS) known.clear();
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
    "text has a piece that is not in the vocabulary, and there is no unk_token to stand for it",
    text,
  );
}

/** Ids without a piece (a padded embedding has some) are shown as U+FFFD. */
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
    throw damaged(TOKENIZER, messageOf(cause), undefined, cause);
  }
}

/** The added token that the template itself writes after an assistant's words. */
function endOfTurnOf(render: Tokenizer["render"], markers: ReadonlyMap<string, number>): number {
  const words = "words";
  const messages: ChatMessage[] = [
    { role: "user", content: "question" },
    { role: "assistant", content: words },
  ];
  const text = render(messages, [], false);
  const after = text.slice(text.lastIndexOf(words) + words.length);
  const ends = [...markers].filter(([content]) => after.startsWith(content)).sort(([a], [b]) => b.length - a.length);
  const end = ends[0]?.[1];
  if (end !== undefined) return end;
  throw damaged(
    CONFIG,
    `chat_template ends an assistant's turn with ${JSON.stringify(after.slice(0, 20))}, not with an added token of ${TOKENIZER}`,
  );
}
