/**
 * @file Stop strings of a request. A sample ends with the first token that completes one, as if the policy's turn ended there; the stop
 * string itself is left out of the reply.
 */
import type { Sample, Tokenizer } from "../../core/ports.ts";

/** The sample up to and including the first token that completes a stop string. */
export function untilStop(sample: Sample, stops: readonly string[], tokenizer: Pick<Tokenizer, "decode">): Sample {
  const isStopped = (length: number) =>
    firstStop(tokenizer.decode(sample.tokens.slice(0, length)), stops) !== undefined;
  if (stops.length === 0 || !isStopped(sample.tokens.length)) return sample;
  const length = firstLength(sample.tokens.length, isStopped);
  return {
    tokens: sample.tokens.slice(0, length),
    logProbs: sample.logProbs.slice(0, length),
    stop: length === sample.tokens.length ? sample.stop : "length",
  };
}

/**
 * The smallest length from 1 to `longest` for which `holds` is true, by bisection. `holds` must be true for `longest`, and if it is true for
 * a length, for every greater one. Stop strings satisfy this: as tokens are added, the text grows only at its end, where an incomplete
 * character may change.
 */
function firstLength(longest: number, holds: (length: number) => boolean): number {
  let [least, most] = [1, longest];
  while (least < most) {
    const middle = Math.floor((least + most) / 2);
    if (holds(middle)) most = middle;
    else least = middle + 1;
  }
  return most;
}

/** The text before the first stop string, and which one ended it. */
export function beforeStop(text: string, stops: readonly string[]): { visible: string; stoppedBy?: string } {
  const first = firstStop(text, stops);
  return first ? { visible: text.slice(0, first.at), stoppedBy: first.stop } : { visible: text };
}

/** The stop string that comes first. */
function firstStop(text: string, stops: readonly string[]): { stop: string; at: number } | undefined {
  const found = stops.map((stop) => ({ stop, at: text.indexOf(stop) })).filter(({ at }) => at >= 0);
  return found.sort((a, b) => a.at - b.at)[0];
}
