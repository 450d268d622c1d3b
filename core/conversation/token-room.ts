/**
 * @file Fits text into a limit in an agent's own tokens. Characters per token differ between languages by a factor of ten, so a limit in
 * characters says little about the context. Counting is slow and a page may be a hundred times too long: only about as much text is
 * tokenized as could fit.
 */
import type { TokenRoom } from "../ports.ts";
import { wholeCharacters } from "../well-formed.ts";

/** Characters per token of the first probe: about twice the length of an English token. */
const PROBE_CHARACTERS_PER_TOKEN = 8;

/** In characters, at least one: probes double. */
const firstProbe = (tokens: number): number => Math.max(1, PROBE_CHARACTERS_PER_TOKEN * tokens);

/** The longest prefix that fits; it never splits a surrogate pair. */
export function prefixWithin(text: string, { tokens, count }: TokenRoom): string {
  let fits = 0;
  let tooLong = Math.min(firstProbe(tokens), text.length);
  while (count(text.slice(0, tooLong)) <= tokens) {
    if (tooLong === text.length) return text;
    [fits, tooLong] = [tooLong, Math.min(2 * tooLong, text.length)];
  }
  while (tooLong - fits > 1) {
    const middle = Math.floor((fits + tooLong) / 2);
    if (count(text.slice(0, middle)) <= tokens) fits = middle;
    else tooLong = middle;
  }
  return wholeCharacters(text.slice(0, fits));
}

/**
 * Splits a text into parts that fit: after a line if possible, else after a word. Lazy: it tokenizes little beyond the part it yields.
 * @param pieceCharacters a longer line or word is split before it is counted: 100,000 spaces have few tokens, but take a second to count.
 */
export function* partsWithin(text: string, room: TokenRoom, pieceCharacters = Infinity): Iterable<string> {
  let part = "";
  let taken = 0;
  for (const [piece, tokens] of piecesOf(text, room, pieceCharacters)) {
    if (part !== "" && taken + tokens > room.tokens) {
      yield part;
      [part, taken] = ["", 0];
    }
    part += piece;
    taken += tokens;
  }
  if (part !== "") yield part;
}

/**
 * Before white space, except U+FEFF, although `\s` includes it. Texts are counted as the agent sees them, escaped, and escaping removes
 * U+FEFF: half a million of them would be words without tokens, counted one by one.
 */
const BEFORE_SPACE = /(?=[^\S\ufeff])/;

/** Lines; a line that does not fit is split into words, each with its leading space; a word that does not fit, into fragments. */
function* piecesOf(
  text: string,
  room: TokenRoom,
  pieceCharacters: number,
): Iterable<readonly [piece: string, tokens: number]> {
  for (const line of text.split(/(?<=\n)/)) {
    const tokens = line.length > pieceCharacters ? undefined : tokensWithin(line, room);
    if (tokens !== undefined) yield [line, tokens];
    else for (const word of line.split(BEFORE_SPACE)) yield* fragmentsOf(word, room, pieceCharacters);
  }
}

/** Number of tokens. Undefined if the text does not fit. */
function tokensWithin(text: string, { tokens, count }: TokenRoom): number | undefined {
  for (let ahead = firstProbe(tokens); ahead < text.length; ahead *= 2) {
    if (count(text.slice(0, ahead)) > tokens) return undefined;
  }
  const all = count(text);
  return all <= tokens ? all : undefined;
}

function* fragmentsOf(
  word: string,
  room: TokenRoom,
  pieceCharacters: number,
): Iterable<readonly [piece: string, tokens: number]> {
  for (let rest = word; rest !== ""; ) {
    const head = rest.length > pieceCharacters ? wholeCharacters(rest.slice(0, pieceCharacters)) : rest;
    // At least one character, however many tokens it takes.
    const fragment = prefixWithin(head, room) || String.fromCodePoint(rest.codePointAt(0) ?? 0);
    yield [fragment, room.count(fragment)];
    rest = rest.slice(fragment.length);
  }
}
