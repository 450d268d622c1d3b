/**
 * @file A rendered template as pieces: its own text between placeholders, which stand for content. The template's text may contain special
 * tokens (`encodeTemplate`); content is data (`encodeText`) and can never act as template. A space that the template writes before content is
 * encoded with it, since most tokenizers join a space with the word that follows.
 */
import { MgrpoError } from "../../core/errors.ts";
import type { Tokenizer } from "../../core/ports.ts";

/** The content with this index, and the spaces before it. */
interface ContentPiece {
  readonly index: number;
  readonly spaces: string;
}

/** In the order in which the template writes them: its own text, as tokens, and contents. */
export type Pieces = readonly (readonly number[] | ContentPiece)[];

/** Private-use characters: no template looks for them, and ordinary text does not contain them. */
export const placeholder = (name: string) => `\uE000${name}\uE001`;
const PLACEHOLDER = /\uE000([a-z0-9-]+)\uE001/;
/** What a template writes at the start of a turn to turn thinking on or off, and omits from earlier turns. The token stream keeps it. */
const OPENED_THOUGHT = /<think>\s*(?:<\/think>\s*)?$/;

/** Maximum number of conversation shapes whose pieces are cached: each turn multiplies the possible shapes. */
export const MAX_SHAPES = 1000;

/** A cache of pieces by the shape of the conversation. It is emptied when it is full. */
export function cachedPieces(): (shape: string, make: () => Pieces) => Pieces {
  const known = new Map<string, Pieces>();
  return (shape, make) => {
    const found = known.get(shape);
    if (found) return found;
    const pieces = make();
    if (known.size >= MAX_SHAPES) known.clear();
    known.set(shape, pieces);
    return pieces;
  };
}

export function fill(tokenizer: Tokenizer, pieces: Pieces, contents: readonly string[]): number[] {
  const tokens: number[] = [];
  for (const piece of pieces) {
    const part = "index" in piece ? tokenizer.encodeText(piece.spaces + (contents[piece.index] ?? "")) : piece;
    for (const token of part) tokens.push(token);
  }
  return tokens;
}

/**
 * The template must write each content once, in any order: Mistral's writes the system message into the last user message.
 * @param names of the contents' placeholders, in the order of the messages.
 */
export function piecesOf(tokenizer: Tokenizer, agent: string, text: string, names: readonly string[]): Pieces {
  // Text of the template and names of placeholders alternate.
  const parts = text.split(PLACEHOLDER);
  const written = new Set(parts.filter((_, i) => i % 2 === 1));
  const indices = new Map(names.map((name, index) => [name, index]));
  if (parts.length === 2 * names.length + 1 && names.every((name) => written.has(name)))
    return encodeParts(tokenizer, parts, indices);
  throw new MgrpoError(
    "prefix-drift",
    `agent '${agent}': its chat_template leaves out or repeats the content of a message: use a template that writes each once`,
    { evidence: text },
  );
}

/** @param parts text of the template and names of placeholders, alternating. @param indices the content that each name stands for. */
function encodeParts(tokenizer: Tokenizer, parts: readonly string[], indices: ReadonlyMap<string, number>): Pieces {
  const pieces: Pieces[number][] = [];
  for (let i = 0; i < parts.length; i += 2) {
    const [text = "", name = ""] = parts.slice(i, i + 2);
    const index = indices.get(name);
    const spaces = index === undefined ? "" : spacesBeforeContent(tokenizer, text);
    pieces.push(tokenizer.encodeTemplate(spaces === "" ? text : text.slice(0, -1)));
    if (index !== undefined) pieces.push({ index, spaces });
  }
  return pieces;
}

/** Stands for content. */
const WORD = "x";

/**
 * What to encode with the content in place of a single space at the end of the template's text, so that the tokens are those of the whole text.
 * Two spaces, if the tokenizer puts another one before a text that follows a control token. Empty: there is no such space, or neither gives these tokens.
 */
function spacesBeforeContent({ encodeTemplate, encodeText }: Tokenizer, text: string): string {
  if (!/(?<! ) $/.test(text)) return "";
  const whole = encodeTemplate(text + WORD).join();
  const own = encodeTemplate(text.slice(0, -1));
  return [" ", "  "].find((spaces) => [...own, ...encodeText(spaces + WORD)].join() === whole) ?? "";
}

/**
 * What the template appends after a sampled turn.
 * @param opened the rendering up to the turn, with the generation prompt.
 * @param after the rendering with the turn, its text being the placeholder `turn`, and what follows.
 */
export function tailText(tokenizer: Tokenizer, agent: string, opened: string, after: string, turn: string): string {
  const before = after.startsWith(opened) ? opened : opened.replace(OPENED_THOUGHT, "");
  // Whitespace that the template puts before an assistant's text is sampled by the model.
  const space = /^\s*/.exec(after.slice(before.length))?.[0] ?? "";
  const sampled = before + space + placeholder(turn) + tokenizer.decode([tokenizer.endOfTurn]);
  if (!after.startsWith(sampled)) throw drift(agent, sampled, after);
  return after.slice(sampled.length);
}

function drift(agent: string, before: string, after: string): MgrpoError {
  const at = before.split("").findIndex((unit, i) => unit !== after[i]);
  return new MgrpoError(
    "prefix-drift",
    `agent '${agent}': its chat_template rewrites earlier messages when a turn is added (from character ${at}: ` +
      `${JSON.stringify(before.slice(at, at + 30))} became ${JSON.stringify(after.slice(at, at + 30))}): ` +
      "the sampled tokens would not be a prefix of the conversation; use a template that only appends",
    { evidence: { before, after } },
  );
}
