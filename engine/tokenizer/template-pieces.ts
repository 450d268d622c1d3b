/**
 * @file A rendered template as pieces: its own text between placeholders, which stand for content. The template's text may contain special
 * tokens (`encodeTemplate`); content is data (`encodeText`) and can never act as template.
 */
import { MgrpoError } from "../../core/errors.ts";
import type { Tokenizer } from "../../core/ports.ts";

/** In the order in which the template writes them: its own text, as tokens, and contents, by index. */
export type Pieces = readonly (readonly number[] | number)[];

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
    const part = typeof piece === "number" ? tokenizer.encodeText(contents[piece] ?? "") : piece;
    for (const token of part) tokens.push(token);
  }
  return tokens;
}

/**
 * The template must write each content once, in any order: Mistral's writes the system message into the last user message.
 * @param the names of the contents' placeholders, in the order of the messages.
 */
export function piecesOf(tokenizer: Tokenizer, agent: string, text: string, names: readonly string[]): Pieces {
  // Text of the template and names of placeholders alternate.
  const parts = text.split(PLACEHOLDER);
  const written = parts.filter((_, i) => i % 2 === 1);
  if (written.length === names.length && names.every((name) => written.includes(name)))
    return parts.map((part, i) => (i % 2 === 1 ? names.indexOf(part) : tokenizer.encodeTemplate(part)));
  throw new MgrpoError(
    "prefix-drift",
    `agent '${agent}': its chat_template leaves out or repeats the content of a message: use a template that writes each once`,
    { evidence: text },
  );
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
