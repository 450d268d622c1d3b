/**
 * @file Cuts a batch into micro-batches of sequences of like length. A function of the lengths alone, so the same batch gives the same
 * bits; padding and grouping change results only by rounding.
 */
import type { EngineOptions } from "../../../core/ports.ts";
import { checkTokens } from "../../model/input-checks.ts";
import { ATTENTION_BLOCKS } from "../graphs/train.ts";

export interface MicroBatch {
  /** Positions in the batch. */
  readonly members: readonly number[];
  /** Length every member is padded to. */
  readonly tokens: number;
}

/** Lengths are padded to a multiple of it: attention takes its queries in as many blocks. */
const GRAIN = ATTENTION_BLOCKS;
/** What a micro-batch costs beside its tokens, in tokens: a run of the graph, and one more sum over the gradient. */
const COST = 48;

export const paddedLength = (tokens: number): number => Math.ceil(tokens / GRAIN) * GRAIN;

/**
 * Longest first; each micro-batch holds at most `microBatchTokens` padded tokens, and at least one sequence. Of all ways to cut the
 * list, the one with the least padding and cost.
 */
export function microBatches(lengths: readonly number[], microBatchTokens: number): MicroBatch[] {
  const order = lengths.map((_, i) => i).sort((a, b) => (lengths[b] ?? 0) - (lengths[a] ?? 0) || a - b);
  const tokensFrom = order.map((member) => paddedLength(lengths[member] ?? 0));
  // Of the first n sequences: the least that they take, and where the last micro-batch begins.
  const best = [{ total: 0, begin: 0 }, ...order.map(() => ({ total: Number.POSITIVE_INFINITY, begin: 0 }))];
  tokensFrom.forEach((tokens, begin) => {
    const most = Math.max(1, Math.floor(microBatchTokens / tokens));
    for (let end = begin + 1; end <= Math.min(begin + most, order.length); end++) {
      const total = (best[begin]?.total ?? 0) + COST + (end - begin) * tokens;
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

/** Micro-batches of sequences that the model can compute; others are refused. */
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
