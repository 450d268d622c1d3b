/**
 * @file Sequences as one row of tokens in which each shared prefix occurs once. Nodes are in depth-first order, so a node's descendants follow
 * it without a gap: token q sees token k if and only if k <= q < ends[k]. A token's position is its depth, as in its own sequence. The
 * last token of a sequence predicts nothing, so it gets no node of its own, except in a sequence of one token.
 *
 *     1 2 3 4          node      0 1 2 3 4
 *     1 2 3 5 6   ->   token     1 2 3 5 7        nodes  0 1 2 | 0 1 2 3 | 0 1 4
 *     1 2 7 8          position  0 1 2 3 2
 *                      end       5 5 4 4 5
 */
import { MASK_VALUE } from "./positions.ts";

export type Sequences = readonly (readonly number[])[];

export interface PrefixTree {
  readonly tokens: Int32Array;
  readonly positions: Int32Array;
  /** One past a node's last descendant. */
  readonly ends: Int32Array;
  /** Per sequence: the node of each of its computed tokens. */
  readonly nodes: readonly Int32Array[];
}

/** Number of tokens of a sequence that are computed: all but the last, and at least one. */
export const computedLength = (tokens: readonly number[]): number => Math.max(1, tokens.length - 1);

/** Indices of the sequences in lexicographic order, which makes those that share a prefix contiguous. */
export function lexicographicOrder(sequences: Sequences): number[] {
  const compare = (a: readonly number[], b: readonly number[]): number => {
    const length = Math.min(a.length, b.length);
    let t = 0;
    while (t < length && a[t] === b[t]) t++;
    return t < length ? (a[t] as number) - (b[t] as number) : a.length - b.length;
  };
  return sequences
    .map((tokens, i) => ({ tokens, i }))
    .sort((a, b) => compare(a.tokens, b.tokens))
    .map(({ i }) => i);
}

/** Number of computed tokens in the common prefix of two sequences. */
export function sharedLength(a: readonly number[], b: readonly number[]): number {
  const length = Math.min(computedLength(a), computedLength(b));
  let t = 0;
  while (t < length && a[t] === b[t]) t++;
  return t;
}

/** Number of nodes in the sequences' prefix tree. @param sequences in lexicographic order, none empty */
export const treeLength = (sequences: Sequences): number =>
  sequences.reduce((sum, tokens, s) => sum + computedLength(tokens) - sharedLength(sequences[s - 1] ?? [], tokens), 0);

/** @param sequences in lexicographic order, none empty */
export function prefixTree(sequences: Sequences): PrefixTree {
  const tokens: number[] = [];
  const positions: number[] = [];
  const ends: number[] = [];
  const nodes: Int32Array[] = [];
  let path = new Int32Array();
  const closeFrom = (depth: number) => {
    for (const node of path.subarray(depth)) ends[node] = tokens.length;
  };
  sequences.forEach((sequence, s) => {
    const shared = sharedLength(sequences[s - 1] ?? [], sequence);
    closeFrom(shared);
    const own = new Int32Array(computedLength(sequence));
    own.set(path.subarray(0, shared));
    for (let t = shared; t < own.length; t++) {
      own[t] = tokens.length;
      tokens.push(sequence[t] as number);
      positions.push(t);
    }
    path = own;
    nodes.push(own);
  });
  closeFrom(0);
  return {
    tokens: new Int32Array(tokens),
    positions: new Int32Array(positions),
    ends: new Int32Array(ends),
    nodes,
  };
}

/** Writes the additive mask [count, count]: a node sees its ancestors and itself, padding sees itself. */
export function fillTreeMask(mask: Float32Array, { ends }: Pick<PrefixTree, "ends">, count: number): void {
  mask.fill(MASK_VALUE);
  for (let k = 0; k < count; k++) {
    const end = ends[k] ?? k + 1;
    for (let q = k; q < end; q++) mask[q * count + k] = 0;
  }
}
