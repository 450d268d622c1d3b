/**
 * @file A small trainer of byte-pair merges (Sennrich et al. 2016). Deterministic: of equally frequent pairs it merges the first in
 * alphabetical order. It works on words as a pre-tokenizer splits them, in GPT-2's byte alphabet, where every byte is one printable
 * character, so that no text is outside the vocabulary. It is written here because the libraries on npm fall short: `@huggingface/tokenizers`,
 * which the engine uses, cannot train, and `tokenizers` 0.23, 64 MB of native code, exports no trainer whose number of merges can be set.
 */

export interface BytePairs {
  /** The 256 bytes first, then one piece per merge. */
  readonly pieces: readonly string[];
  readonly merges: readonly (readonly [string, string])[];
  /** How often each piece occurs in the corpus after all merges. */
  readonly counts: ReadonlyMap<string, number>;
}

interface Word {
  pieces: string[];
  readonly count: number;
}

/** Merges up to `mergeCount` pairs. A pair that occurs once in the corpus is not merged. */
export function trainBytePairs(wordCounts: ReadonlyMap<string, number>, mergeCount: number): BytePairs {
  const words: Word[] = [...wordCounts].map(([text, count]) => ({ pieces: [...inByteAlphabet(text)], count }));
  const merges: [string, string][] = [];
  while (merges.length < mergeCount) {
    const pair = mostFrequentPair(words);
    if (!pair) break;
    merges.push(pair);
    for (const word of words) word.pieces = merged(word.pieces, pair);
  }
  const counts = new Map<string, number>();
  for (const { pieces, count } of words) {
    for (const piece of pieces) counts.set(piece, (counts.get(piece) ?? 0) + count);
  }
  return { pieces: [...BYTES, ...merges.map(([a, b]) => a + b)], merges, counts };
}

function mostFrequentPair(words: readonly Word[]): [string, string] | undefined {
  const counts = new Map<string, number>();
  for (const { pieces, count } of words) {
    for (let i = 1; i < pieces.length; i++) {
      const pair = `${pieces[i - 1]} ${pieces[i]}`;
      counts.set(pair, (counts.get(pair) ?? 0) + count);
    }
  }
  let best: string | undefined;
  let most = 1;
  for (const [pair, count] of counts) {
    if (count > most || (count === most && best !== undefined && pair < best)) [best, most] = [pair, count];
  }
  return best?.split(" ") as [string, string] | undefined;
}

function merged(pieces: readonly string[], [a, b]: readonly [string, string]): string[] {
  const out: string[] = [];
  for (let i = 0; i < pieces.length; i++) {
    const here = pieces[i] as string;
    if (here === a && pieces[i + 1] === b) {
      out.push(a + b);
      i++;
    } else out.push(here);
  }
  return out;
}

/** GPT-2's table: printable Latin-1 bytes stand for themselves, the others map to characters from U+0100 on. */
const BYTES: readonly string[] = (() => {
  let next = 0x100;
  return Array.from({ length: 256 }, (_, byte) => {
    const printable =
      (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
    return String.fromCharCode(printable ? byte : next++);
  });
})();

export const inByteAlphabet = (text: string): string =>
  Array.from(new TextEncoder().encode(text), (byte) => BYTES[byte]).join("");
