/**
 * @file Groups rows of similar length into micro-batches. The grouping depends only on the rows' sizes and the limits,
 * so equal batches give equal bits; padding and grouping change results only by rounding.
 */
import type { EngineOptions } from "../../../core/ports.ts";
import { ATTENTION_BLOCKS } from "../graphs/train.ts";

/** A row before it is padded: a sequence or a prefix tree. */
export interface RowSize {
  readonly tokens: number;
  readonly predictions: number;
}

/** Rows that are computed together. */
export interface RowGroup {
  /** Indices of the rows. */
  readonly rows: readonly number[];
  /** Length that every row is padded to. */
  readonly tokens: number;
}

/** Maximum tokens, attention scores per head, and predictions of a micro-batch of more than one row. */
export interface MicroBatchLimits {
  readonly tokens: number;
  readonly scores: number;
  readonly predictions: number;
}

/** `scores` and `predictions` are those of the largest micro-batch of whole sequences, so that micro-batches of trees take no more memory. */
export function limitsOf({ microBatchTokens, contextTokens }: EngineOptions): MicroBatchLimits {
  const largest = Math.max(microBatchTokens, contextTokens);
  return { tokens: microBatchTokens, scores: largest * contextTokens, predictions: largest };
}

/** Fixed cost of a micro-batch, in tokens: one run of the graph and one more sum over the gradient. */
export const RUN_COST_TOKENS = 48;

/** Lengths are padded to a multiple of ATTENTION_BLOCKS, since attention splits its queries into that many blocks. */
export const paddedLength = (tokens: number): number => Math.ceil(tokens / ATTENTION_BLOCKS) * ATTENTION_BLOCKS;

/**
 * Longest first, each within the limits or a single row. Minimizes the total of padded tokens and fixed costs by dynamic programming over
 * the sorted list.
 */
export function microBatches(sizes: readonly RowSize[], limits: MicroBatchLimits): RowGroup[] {
  const lengthOf = (row: number) => sizes[row]?.tokens ?? 0;
  const order = sizes.map((_, row) => row).sort((a, b) => lengthOf(b) - lengthOf(a) || a - b);
  const tokensFrom = order.map((row) => paddedLength(lengthOf(row)));
  // best[n]: the least cost of the first n rows, and where its last micro-batch begins.
  const best = [{ total: 0, begin: 0 }, ...order.map(() => ({ total: Number.POSITIVE_INFINITY, begin: 0 }))];
  tokensFrom.forEach((tokens, begin) => {
    const maximumRows = Math.max(1, Math.floor(Math.min(limits.tokens / tokens, limits.scores / tokens ** 2)));
    let predictions = 0;
    for (let end = begin + 1; end <= Math.min(begin + maximumRows, order.length); end++) {
      predictions += sizes[order[end - 1] as number]?.predictions ?? 0;
      if (end > begin + 1 && predictions > limits.predictions) break;
      const total = (best[begin]?.total ?? 0) + RUN_COST_TOKENS + (end - begin) * tokens;
      if (total < (best[end]?.total ?? 0)) best[end] = { total, begin };
    }
  });
  const groups: RowGroup[] = [];
  for (let end = order.length; end > 0; end = best[end]?.begin ?? 0) {
    const begin = best[end]?.begin ?? 0;
    groups.unshift({ rows: order.slice(begin, end), tokens: tokensFrom[begin] ?? 0 });
  }
  return groups;
}
