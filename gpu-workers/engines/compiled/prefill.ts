/**
 * @file Fills the caches of conversations before they speak. What one cache holds, another is given as a copy: rollouts of a question share
 * its prompt, all questions the system message and the tools, and those that did the same so far the response they got.
 *
 * A cache's bits depend on the tokens and on how they were cut into pieces. Pieces begin where a turn begins and are CHUNK long, whoever
 * else is there; and only whole pieces are copied, from a cache that was cut alike up to their end. So a copy has the bits that
 * computing would have given.
 */
import type { Piece } from "./decoder.ts";
import type { Placed } from "./residents.ts";

/** Tokens of a piece, at most. */
const CHUNK = 256;

/** A conversation, and all that its cache is to hold. */
export interface Filling {
  readonly resident: Placed;
  readonly tokens: readonly number[];
}

export interface Filler {
  /** Gives a slot what another holds at positions [begin, end); before them they hold the same. */
  readonly cache: { copy(from: number, to: number, begin: number, end: number): void };
  prefill(pieces: readonly Piece[]): Promise<void>;
}

/** Ends when every cache holds its tokens. `known` are all caches that can be copied from, those to be filled among them. */
export async function prefill(fillings: readonly Filling[], known: readonly Placed[], decoder: Filler): Promise<void> {
  let left = fillings;
  while (true) {
    for (const filling of left) copyPieces(filling, known, decoder.cache);
    left = left.filter(unfinished);
    if (left.length === 0) return;
    // One computes for all who need the same; the others copy from it when it is done.
    const first = left.filter((filling, i) => left.findIndex((other) => needTheSame(other, filling)) === i);
    await decoder.prefill(first.map(nextPiece));
    first.forEach(hold);
  }
}

function copyPieces(filling: Filling, known: readonly Placed[], cache: Filler["cache"]): void {
  const { resident } = filling;
  while (unfinished(filling)) {
    const source = sourceOf(filling, known);
    if (!source) return;
    cache.copy(source.slot, resident.slot, resident.tokens.length, end(filling));
    hold(filling);
  }
}

const unfinished = ({ resident, tokens }: Filling) => resident.tokens.length < tokens.length;

/** Where the next piece ends. */
const end = ({ resident, tokens }: Filling) => Math.min(resident.tokens.length + CHUNK, tokens.length);

function nextPiece(filling: Filling): Piece {
  const { resident, tokens } = filling;
  const position = resident.tokens.length;
  return { slot: resident.slot, position, tokens: tokens.slice(position, end(filling)) };
}

/** The cache holds the next piece now. */
function hold(filling: Filling): void {
  const { resident, tokens } = filling;
  const [from, to] = [resident.tokens.length, end(filling)];
  resident.prefilled.push(from, to);
  for (let i = from; i < to; i++) resident.tokens.push(tokens[i] as number);
}

function sourceOf(filling: Filling, known: readonly Placed[]): Placed | undefined {
  const { resident, tokens } = filling;
  const [from, to] = [resident.tokens.length, end(filling)];
  const cuts = [...resident.prefilled, from, to];
  return known.find(
    (other) => other !== resident && beginsWith(other.prefilled, cuts) && beginsWith(other.tokens, tokens, to),
  );
}

function needTheSame(a: Filling, b: Filling): boolean {
  const to = end(b);
  return end(a) === to && sameCuts(a.resident, b.resident) && beginsWith(a.tokens, b.tokens, to);
}

const sameCuts = (a: Placed, b: Placed) =>
  a.prefilled.length === b.prefilled.length &&
  a.tokens.length === b.tokens.length &&
  beginsWith(a.prefilled, b.prefilled);

/** Whether the first `count` are the same; from the end, where sequences differ that begin alike. */
function beginsWith(list: readonly number[], start: readonly number[], count = start.length): boolean {
  if (list.length < count) return false;
  for (let i = count - 1; i >= 0; i--) if (list[i] !== start[i]) return false;
  return true;
}
