/** @file The known name that a mistyped one probably stands for. */
import { closestMatch } from "leven";

/** `; did you mean 'steps'?`, to end a message with; empty if no known name is near. */
export function didYouMean(word: string, known: readonly string[]): string {
  const near = closestMatch(word, known, { maxDistance: Math.ceil(word.length / 3) });
  return near === undefined || near === word ? "" : `; did you mean '${near}'?`;
}
