/**
 * @file Which sequences of a batch share a row as a prefix tree. A row saves the tokens that its sequences share, but a token's attention
 * scores are computed for all earlier tokens of the row, other branches included, so attention's cost grows with the square of the row's
 * length. The plan minimizes the estimated cost; it is a function of the batch, the model and the limits alone.
 */
import { computedLength, lexicographicOrder, type Sequences, sharedLength } from "./prefix-tree.ts";

/** Limits of a tree of more than one sequence. */
export interface TreeLimits {
  readonly tokens: number;
  /** Predictions, counted per sequence. */
  readonly predictions: number;
}

/**
 * Trees as indices of their sequences, in lexicographic order; many have a single sequence. In that order, a sequence shares its longest
 * prefix with one of its two neighbors, so each tree is a run of neighbors. Dynamic programming decides where each tree
 * ends.
 *
 * @param costOf estimated cost of a row, given its number of tokens
 */
export function planTrees(
  sequences: Sequences,
  predictionsOf: (member: number) => number,
  costOf: (tokens: number) => number,
  limits: TreeLimits,
): number[][] {
  const order = lexicographicOrder(sequences);
  const tokensOf = (n: number) => sequences[order[n] as number] as readonly number[];
  const length = order.map((_, n) => computedLength(tokensOf(n)));
  const shared = order.map((_, n) => (n === 0 ? 0 : sharedLength(tokensOf(n - 1), tokensOf(n))));
  // best[n]: the least cost of the first n sequences, and where its last tree begins.
  const best = [{ total: 0, begin: 0 }, ...order.map(() => ({ total: Number.POSITIVE_INFINITY, begin: 0 }))];
  order.forEach((_, begin) => {
    let [tokens, predictions] = [0, 0];
    for (let end = begin; end < order.length; end++) {
      const isShared = end > begin;
      tokens += (length[end] ?? 0) - (isShared ? (shared[end] ?? 0) : 0);
      predictions += predictionsOf(order[end] as number);
      if (isShared && (shared[end] === 0 || tokens > limits.tokens || predictions > limits.predictions)) break;
      const total = (best[begin]?.total ?? 0) + costOf(tokens);
      if (total < (best[end + 1]?.total ?? 0)) best[end + 1] = { total, begin };
    }
  });
  const trees: number[][] = [];
  for (let end = order.length; end > 0; end = best[end]?.begin ?? 0) {
    trees.unshift(order.slice(best[end]?.begin ?? 0, end));
  }
  return trees;
}
