/**
 * @file Cuts a batch into micro-batches of sequences of similar length. The cut depends only on the lengths, so equal batches give equal
 * bits; padding and grouping change results only by rounding.
 */
import type { EngineOptions } from "../../../core/ports.ts";
import { checkTokens } from "../../model/input-checks.ts";
import { ATTENTION_BLOCKS } from "../graphs/train.ts";

export interface MicroBatch {
  /** Indices into the batch. */
  readonly members: readonly number[];
  /** Length that every member is padded to. */
  readonly tokens: number;
}

/** Fixed cost of a micro-batch, in tokens: one run of the graph and one more sum over the gradient. */
const RUN_COST_TOKENS = 48;

/** Lengths are padded to a multiple of ATTENTION_BLOCKS, since attention splits its queries into that many blocks. */
export const paddedLength = (tokens: number): number => Math.ceil(tokens / ATTENTION_BLOCKS) * ATTENTION_BLOCKS;

/**
 * Longest first. Each micro-batch holds at most `microBatchTokens` padded tokens, or a single sequence. Minimises the total of padded tokens
 * and fixed costs by dynamic programming over the sorted list.
 */
export function microBatches(lengths: readonly number[], microBatchTokens: number): MicroBatch[] {
  const order = lengths.map((_, i) => i).sort((a, b) => (lengths[b] ?? 0) - (lengths[a] ?? 0) || a - b);
  const tokensFrom = order.map((member) => paddedLength(lengths[member] ?? 0));
  // best[n]: the least cost of the first n sequences, and where its last micro-batch begins.
  const best = [{ total: 0, begin: 0 }, ...order.map(() => ({ total: Number.POSITIVE_INFINITY, begin: 0 }))];
  tokensFrom.forEach((tokens, begin) => {
    const most = Math.max(1, Math.floor(microBatchTokens / tokens));
    for (let end = begin + 1; end <= Math.min(begin + most, order.length); end++) {
      const total = (best[begin]?.total ?? 0) + RUN_COST_TOKENS + (end - begin) * tokens;
      if (total < (best[end]?.total ?? 0)) best[end] = { total, begin };
    }
  });
  const batches: MicroBatch[] = [];
  for (let end = order.length; end > 0; end = best[end]?.begin ?? 0) {
    const begin = best[end]?.begin ?? 0;
    batches.unshift({ members: order.slice(begin, end), tokens: tokensFrom[begin] ?? 0 });
  }
  return batches;
}

/** Plans the micro-batches of a batch. Rejects tokens and lengths that the model cannot handle. */
export function planMicroBatches(
  sequences: readonly (readonly number[])[],
  vocabulary: number,
  { contextTokens, microBatchTokens }: EngineOptions,
): MicroBatch[] {
  for (const tokens of sequences) checkTokens(tokens, vocabulary, contextTokens);
  // The last token predicts nothing.
  const lengths = sequences.map((tokens) => Math.max(1, tokens.length - 1));
  return microBatches(lengths, microBatchTokens);
}
