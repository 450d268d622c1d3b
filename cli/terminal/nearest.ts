/** @file Finds the known name that a mistyped one probably means. */
import { closestMatch } from "leven";

/** `; did you mean 'steps'?`, as the end of a message; empty if no known name is similar. */
export function didYouMean(word: string, known: readonly string[]): string {
  const near = closestMatch(word, known, { maxDistance: Math.ceil(word.length / 3) });
  return near === undefined || near === word ? "" : `; did you mean '${near}'?`;
}
