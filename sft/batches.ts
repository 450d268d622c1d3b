/** @file Which demonstrations are held out, and the order and batches of the others: pure functions of their arguments. */
import { stream } from "../core/random.ts";
import { sha256 } from "../engine/hash.ts";
import { allTokens, type Example } from "./example.ts";

export interface Split {
  readonly training: readonly Example[];
  /** The first `limit` held-out examples in order of their hashes, one of each hash. */
  readonly heldOut: readonly Example[];
}

/** The part of an example that is hashed: all of its tokens, or those of its prompt. */
export type HashedPart = "tokens" | "prompt";

/**
 * Holds out an example if its hash, as a number in [0, 1), is below the share. So its side does not depend on other examples, and equal examples
 * are on the same side; with `prompt`, so are all examples of one prompt. A sub-agent's prompt is its task, so differently worded tasks of one
 * question may be on different sides.
 */
export function split(examples: readonly Example[], share: number, limit: number, part: HashedPart = "tokens"): Split {
  const hashed = examples.map((example) => ({ example, at: positionOf(example, part) }));
  const heldOut = hashed.filter(({ at }) => at < share).sort((a, b) => a.at - b.at);
  return {
    training: hashed.filter(({ at }) => at >= share).map(({ example }) => example),
    heldOut: distinct(heldOut.map(({ example, at }) => [at, example])).slice(0, limit),
  };
}

function positionOf({ tokens, turns, promptTokens = turns[0]?.[0] }: Example, part: HashedPart): number {
  const hashed = part === "prompt" ? tokens.slice(0, promptTokens) : tokens;
  return Number.parseInt(sha256(hashed.join()).slice(0, 12), 16) / 2 ** 48;
}

const distinct = (examples: readonly (readonly [number, Example])[]): Example[] => [...new Map(examples).values()];

/** Passes over the examples, each in its own random order, until `tokens` tokens are used up: the last pass may be cut short. */
export function* passes(
  examples: readonly Example[],
  tokens: number,
  name: readonly (string | number)[],
): Generator<Example> {
  let left = tokens;
  for (let pass = 0; left > 0 && examples.length > 0; pass++) {
    for (const i of stream("sft", ...name, pass).choose(examples.length, examples.length)) {
      const example = examples[i] as Example;
      yield example;
      left -= example.tokens.length;
      if (left <= 0) return;
    }
  }
}

/** Batches of at least `batchTokens` tokens each; only the last may have fewer. */
export function* batchesOf(examples: Iterable<Example>, batchTokens: number): Generator<readonly Example[]> {
  let batch: Example[] = [];
  for (const example of examples) {
    batch.push(example);
    if (allTokens(batch) < batchTokens) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}
