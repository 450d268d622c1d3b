/**
 * @file Which sequences of a batch share a row as a prefix tree. A row saves the tokens that its sequences share, but a token's attention is
 * computed over the whole row, other branches included, so its cost grows with the square of its length. The plan minimizes the estimated
 * cost; it is a function of the batch and the model alone.
 */
import { computedLength, lexicographicOrder, type Sequences, sharedLength } from "./prefix-tree.ts";

/** Costs in tokens: what the layers' products of one token cost. */
export interface RowCosts {
  /** Fixed cost of a run of the graph. */
  readonly run: number;
  /** Attention of one token to one other. */
  readonly attention: number;
}

export const rowCost = (tokens: number, { attention }: RowCosts): number => tokens * (1 + attention * tokens);

export interface TreePlan {
  /** Indices of the sequences of each tree, in lexicographic order. Every tree has at least two that share tokens. */
  readonly trees: readonly (readonly number[])[];
  /** Indices of all other sequences, in ascending order. */
  readonly apart: readonly number[];
  /** Estimated cost of the trees, in tokens. */
  readonly cost: number;
}

/** Limits of a tree of at least two sequences. */
export interface TreeLimits {
  readonly tokens: number;
  /** Predictions, counted per sequence. */
  readonly predictions: number;
}

/**
 * In lexicographic order, each adjacent pair shares the longest prefix that either shares with any other. So trees are cut from that order,
 * by dynamic programming.
 */
export function planTrees(
  sequences: Sequences,
  predictionsOf: (member: number) => number,
  costs: RowCosts,
  limits: TreeLimits,
): TreePlan {
  const order = lexicographicOrder(sequences);
  const tokensOf = (n: number) => sequences[order[n] as number] as readonly number[];
  const length = order.map((_, n) => computedLength(tokensOf(n)));
  const shared = order.map((_, n) => (n === 0 ? 0 : sharedLength(tokensOf(n - 1), tokensOf(n))));
  // best[n]: the least cost of the first n sequences, and where its last row begins.
  const best = [{ total: 0, begin: 0 }, ...order.map(() => ({ total: Number.POSITIVE_INFINITY, begin: 0 }))];
  order.forEach((_, begin) => {
    let [tokens, predictions] = [0, 0];
    for (let end = begin; end < order.length; end++) {
      tokens += (length[end] ?? 0) - (end > begin ? (shared[end] ?? 0) : 0);
      predictions += predictionsOf(order[end] as number);
      const isTree = end > begin;
      if (isTree && (shared[end] === 0 || tokens > limits.tokens || predictions > limits.predictions)) break;
      const total = (best[begin]?.total ?? 0) + (isTree ? costs.run : 0) + rowCost(tokens, costs);
      if (total < (best[end + 1]?.total ?? 0)) best[end + 1] = { total, begin };
    }
  });
  const [trees, apart]: [number[][], number[]] = [[], []];
  let cost = 0;
  for (let end = order.length; end > 0; end = best[end]?.begin ?? 0) {
    const begin = best[end]?.begin ?? 0;
    const members = order.slice(begin, end);
    if (members.length === 1) apart.push(...members);
    else {
      trees.unshift(members);
      cost += (best[end]?.total ?? 0) - (best[begin]?.total ?? 0);
    }
  }
  return { trees, apart: apart.sort((a, b) => a - b), cost };
}
