/**
 * @file How much of a text fits into so many of an agent's own tokens. Languages differ in what a token holds by a factor of ten, so characters
 * alone say little about a context. Counting takes time, and a page may be a hundred times as long as what fits: no more of a text is
 * counted than could.
 */

/** Room for one text. */
export interface TokenRoom {
  readonly tokens: number;
  /** Tokens of a text as the agent would see it. */
  count(text: string): number;
}

/** Characters per token that are counted at first: twice what the tokens of most languages hold. */
const AHEAD = 8;

/** The longest prefix that fits; it does not end in half a character. */
export function prefixWithin(text: string, { tokens, count }: TokenRoom): string {
  let fits = 0;
  let tooLong = Math.min(AHEAD * tokens, text.length);
  while (count(text.slice(0, tooLong)) <= tokens) {
    if (tooLong === text.length) return text;
    [fits, tooLong] = [tooLong, Math.min(2 * tooLong, text.length)];
  }
  while (tooLong - fits > 1) {
    const middle = Math.floor((fits + tooLong) / 2);
    if (count(text.slice(0, middle)) <= tokens) fits = middle;
    else tooLong = middle;
  }
  return text.slice(0, /[\uD800-\uDBFF]/.test(text[fits - 1] ?? "") ? fits - 1 : fits);
}

/** Consecutive parts that fit, together the whole text: ended at a line where one ends, else at a word. What comes after a part is not counted for it. */
export function* partsWithin(text: string, room: TokenRoom): Iterable<string> {
  let part = "";
  let taken = 0;
  for (const [piece, tokens] of piecesOf(text, room)) {
    if (part !== "" && taken + tokens > room.tokens) {
      yield part;
      [part, taken] = ["", 0];
    }
    part += piece;
    taken += tokens;
  }
  if (part !== "") yield part;
}

/** Lines; of a line that does not fit, its words, each with the space before it; of such a word, what fits. */
function* piecesOf(text: string, room: TokenRoom): Iterable<readonly [piece: string, tokens: number]> {
  for (const line of text.split(/(?<=\n)/)) {
    const tokens = tokensWithin(line, room);
    if (tokens !== undefined) yield [line, tokens];
    else for (const word of line.split(/(?=\s)/)) yield* fragmentsOf(word, room);
  }
}

/** Undefined of a text that does not fit. */
function tokensWithin(text: string, { tokens, count }: TokenRoom): number | undefined {
  for (let ahead = AHEAD * tokens; ahead < text.length; ahead *= 2) {
    if (count(text.slice(0, ahead)) > tokens) return undefined;
  }
  const all = count(text);
  return all <= tokens ? all : undefined;
}

function* fragmentsOf(word: string, room: TokenRoom): Iterable<readonly [piece: string, tokens: number]> {
  for (let rest = word; rest !== ""; ) {
    // One character at least, however many tokens it takes.
    const fragment = prefixWithin(rest, room) || String.fromCodePoint(rest.codePointAt(0) ?? 0);
    yield [fragment, room.count(fragment)];
    rest = rest.slice(fragment.length);
  }
}
