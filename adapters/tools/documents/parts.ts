/** @file Splits a text that is too long for one tool response into parts that each fit. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { partsWithin } from "../../../core/conversation/token-room.ts";
import type { ToolContext } from "../../../core/ports.ts";
import { clip } from "../../../core/well-formed.ts";

/** Characters of the heading above a part, besides title and source. */
const NOTE_CHARACTERS = 40;
const LONG_NOTE = "part 999, continues in part 1000";
const MAX_HEADING_TITLE = 120;
const MAX_HEADING_SOURCE = 300;
/** The limit of a part's characters is at least this, even if the heading leaves less room. */
const MIN_PART_CHARACTERS = 100;

export interface TitledText {
  readonly title: string;
  /** An address, or the name of a file. */
  readonly source: string;
  readonly text: string;
}

/** The part under its heading, or a sentence saying that it does not exist. */
export async function showPart(document: TitledText, part: number, context: ToolContext): Promise<string> {
  const { shown, isLast, seen } = await findPart(partsFor(document, context), part);
  if (shown === undefined) return `${document.source} has no part ${part}: its last part is ${seen}`;
  const note = isLast ? `part ${part}, the last one` : `part ${part}, continues in part ${part + 1}`;
  return withHeading(document, isLast && part === 1 ? "" : note, shown);
}

/** Parts, each short enough for a response with its heading: in characters and, with `responseTokens`, in the agent's tokens. */
function* partsFor(page: TitledText, { responseCharacters, responseTokens }: ToolContext): Iterable<string> {
  const heading =
    Math.min(page.source.length, MAX_HEADING_SOURCE) + Math.min(page.title.length, MAX_HEADING_TITLE) + NOTE_CHARACTERS;
  const characters = Math.max(responseCharacters - heading, MIN_PART_CHARACTERS);
  if (!responseTokens) return yield* partsOf(page.text, characters);
  const { tokens, count } = responseTokens;
  const room = { tokens: Math.max(tokens - count(withHeading(page, LONG_NOTE, "")), 1), count };
  for (const part of partsWithin(page.text, room, characters)) yield* partsOf(part, characters);
}

/**
 * One part, whether it is the last, and how many were seen up to it. The event loop runs between parts, so that counting the tokens of a long
 * text does not block this process.
 */
async function findPart(
  parts: Iterable<string>,
  wanted: number,
): Promise<{ shown: string | undefined; isLast: boolean; seen: number }> {
  let shown: string | undefined;
  let seen = 0;
  for (const part of parts) {
    if (shown !== undefined) return { shown, isLast: false, seen };
    seen += 1;
    if (seen === wanted) shown = part;
    await nextTurn();
  }
  return { shown, isLast: true, seen };
}

/** The text under its title, its source and a note; empty ones are left out. */
export function withHeading(
  { title, source }: Pick<TitledText, "title" | "source">,
  note: string,
  text: string,
): string {
  const heading = [clip(title.replace(/\s+/g, " "), MAX_HEADING_TITLE), clip(source, MAX_HEADING_SOURCE), note].filter(
    (line) => line !== "",
  );
  return `${heading.join("\n")}\n\n${text}`;
}

/**
 * Parts of at most `characters`. Each but the last is cut after the last line that ends in the final fifth of that limit, or else after the
 * last word that does, or else at the limit.
 */
export function partsOf(text: string, characters: number): string[] {
  const parts: string[] = [];
  for (let from = 0; from < text.length; ) {
    const whole = clip(text.slice(from), characters);
    const isLast = from + whole.length >= text.length;
    const earliest = Math.floor(characters * 0.8);
    const ends = [whole.lastIndexOf("\n"), whole.lastIndexOf(" ")].filter((end) => end > earliest);
    const part = isLast || ends[0] === undefined ? whole : whole.slice(0, ends[0] + 1);
    parts.push(part);
    from += part.length;
  }
  return parts;
}
