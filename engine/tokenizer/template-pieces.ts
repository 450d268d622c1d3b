/**
 * @file A rendered template as pieces: its own text between placeholders, which stand for content. The template's text may contain special
 * tokens (`encodeTemplate`); content is data (`encodeText`) and can never act as template.
 */
import { MgrpoError } from "../../core/errors.ts";
import type { Tokenizer } from "../../core/ports.ts";

/** Text pieces of the template between contents, as tokens. */
export type Pieces = readonly (readonly number[])[];

/** Private-use characters: no template looks for them, and no rendered text contains them. */
export const placeholder = (name: string) => `\uE000${name}\uE001`;
const PLACEHOLDER = /\uE000[a-z0-9-]+\uE001/;
/** What a template writes at the start of a turn to turn thinking on or off, and omits from earlier turns. The token stream keeps it. */
const OPENED_THOUGHT = /<think>\s*(?:<\/think>\s*)?$/;

export function fill(tokenizer: Tokenizer, pieces: Pieces, contents: readonly string[]): number[] {
  const tokens: number[] = [];
  for (const [i, piece] of pieces.entries()) {
    for (const token of piece) tokens.push(token);
    for (const token of tokenizer.encodeText(contents[i] ?? "")) tokens.push(token);
  }
  return tokens;
}

/** A template must write each content once, in order. */
export function piecesOf(tokenizer: Tokenizer, agent: string, text: string, contents: number): Pieces {
  const pieces = text.split(PLACEHOLDER);
  if (pieces.length - 1 === contents) return pieces.map((piece) => tokenizer.encodeTemplate(piece));
  throw new MgrpoError(
    "prefix-drift",
    `agent '${agent}': its chat_template writes ${contents} messages' content ${pieces.length - 1} times: use a template that writes each once`,
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
