/** @file Texts drawn at random, for comparing token ids with those that a Python script got for the same texts. */
import { sha256 } from "../../engine/hash.ts";

/** A text is the prefix, followed by 1 to 13 pairs of a separator and a word. */
export interface DrawnTexts {
  readonly seed: number;
  readonly separators: readonly string[];
  readonly words: readonly string[];
  readonly prefix: string;
  /** For each text, the first 8 hex digits of the SHA-256 of its token ids. */
  readonly hashes: readonly string[];
}

/** Texts that the high bits of a linear congruential generator choose. */
function draw({ seed, separators, words, prefix, hashes }: DrawnTexts): string[] {
  let state = seed;
  const below = (n: number): number => {
    state = (1664525 * state + 1013904223) % 2 ** 32;
    return Math.floor((state * n) / 2 ** 32);
  };
  const one = (from: readonly string[]) => from[below(from.length)] as string;
  return hashes.map(() => {
    const parts = Array.from({ length: 1 + below(13) }, () => one(separators) + one(words));
    return prefix + parts.join("");
  });
}

/** The texts whose ids are not the expected ones. */
export function differingTexts(encode: (text: string) => readonly number[], drawn: DrawnTexts): string[] {
  return draw(drawn).filter((text, i) => sha256(encode(text).join()).slice(0, 8) !== drawn.hashes[i]);
}
