/**
 * @file Cuts a batch into micro-batches: a prefix tree in a row of its own, or sequences of similar length, a row each. The cut depends only on
 * the batch, the model and the options, so equal batches give equal bits; trees, padding and grouping change results only by rounding.
 */
import type { EngineOptions } from "../../../core/ports.ts";
import type { ModelConfig } from "../../checkpoint/config.ts";
import { checkTokens } from "../../model/input-checks.ts";
import { computedLength, type PrefixTree, prefixTree, type Sequences, treeLength } from "../../model/prefix-tree.ts";
import { planTrees, type RowCosts, rowCost, type TreePlan } from "../../model/tree-plan.ts";
import { ATTENTION_BLOCKS } from "../graphs/train.ts";
import { assignToLanes } from "../lanes.ts";

export interface MicroBatch {
  /** Indices into the batch. */
  readonly members: readonly number[];
  /** Length that every row is padded to. */
  readonly tokens: number;
  /** The members as one row. Absent: each has its own. */
  readonly tree?: PrefixTree;
}

export const rowCount = ({ members, tree }: MicroBatch): number => (tree ? 1 : members.length);

/** The row of B * T = rows x tokens that holds token t of the i-th member. */
export const rowOf =
  ({ tokens, tree }: MicroBatch) =>
  (i: number, t: number): number =>
    tree ? (tree.nodes[i]?.[t] ?? 0) : i * tokens + t;

/** Fixed cost of a micro-batch, in tokens: one run of the graph and one more sum over the gradient. */
const RUN_COST_TOKENS = 48;

/** Lengths are padded to a multiple of ATTENTION_BLOCKS, since attention splits its queries into that many blocks. */
export const paddedLength = (tokens: number): number => Math.ceil(tokens / ATTENTION_BLOCKS) * ATTENTION_BLOCKS;

/**
 * Longest first. Each micro-batch holds at most `microBatchTokens` padded tokens, or a single sequence. Minimizes the total of padded tokens
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

/** Attention's arithmetic runs at a fraction of the speed of the layers' products: it passes over [T, T] arrays several times. */
const ATTENTION_SLOWNESS = 2.5;
/** Estimated cost of a batch apart, divided by that in trees, from which trees are used. Below, estimates may err. */
const MINIMUM_GAIN = 1.2;

function rowCosts({ width, heads, kvHeads, headWidth, ffnWidth }: ModelConfig): RowCosts {
  const products = 2 * width * headWidth * (heads + kvHeads) + 3 * width * ffnWidth;
  const pairs = (ATTENTION_BLOCKS + 1) / (2 * ATTENTION_BLOCKS);
  return { run: RUN_COST_TOKENS, attention: (ATTENTION_SLOWNESS * 2 * heads * headWidth * pairs) / products };
}

/**
 * Whether a batch is computed in trees, and in which. A tree has at most as many attention scores and predictions as the largest micro-batch
 * of sequences apart, so it takes no more memory.
 */
export function planBatch(
  sequences: Sequences,
  predictionsOf: (member: number) => number,
  config: ModelConfig,
  options: EngineOptions,
): TreePlan {
  const every = sequences.map((_, i) => i);
  const apart: TreePlan = { trees: [], apart: every, cost: 0 };
  if (options.prefixTrees === false) return apart;
  const costs = rowCosts(config);
  const largest = Math.max(options.microBatchTokens, options.contextTokens);
  const tokens = Math.floor(Math.sqrt(largest * options.contextTokens));
  const plan = planTrees(sequences, predictionsOf, costs, { tokens, predictions: largest });
  const costApart = (members: readonly number[]) => {
    const lengths = members.map((member) => computedLength(sequences[member] ?? []));
    return microBatches(lengths, options.microBatchTokens).reduce(
      (sum, micro) => sum + costs.run + micro.members.length * rowCost(micro.tokens, costs),
      0,
    );
  };
  return costApart(every) >= MINIMUM_GAIN * (plan.cost + costApart(plan.apart)) ? plan : apart;
}

/** The indices of each lane's part of a batch: a tree stays on one lane. */
export function assignBatch(
  sequences: Sequences,
  lanes: number,
  config: ModelConfig,
  options: EngineOptions,
): readonly (readonly number[])[] {
  const { trees, apart } = planBatch(sequences, () => 0, config, options);
  const units = [
    ...trees.map((members) => ({ members, length: treeLength(members.map((member) => sequences[member] ?? [])) })),
    ...apart.map((member) => ({ members: [member], length: sequences[member]?.length ?? 0 })),
  ];
  const assigned = assignToLanes(
    units.map(({ length }) => length),
    lanes,
  );
  return assigned.map((lane) => lane.flatMap((unit) => units[unit]?.members ?? []));
}

/** Plans the micro-batches of a batch. Rejects tokens and lengths that the model cannot handle. */
export function planMicroBatches(
  sequences: Sequences,
  predictionsOf: (member: number) => number,
  config: ModelConfig,
  options: EngineOptions,
): MicroBatch[] {
  for (const tokens of sequences) checkTokens(tokens, config.vocabulary, options.contextTokens);
  const { trees, apart } = planBatch(sequences, predictionsOf, config, options);
  const inTrees = trees.map((members): MicroBatch => {
    const tree = prefixTree(members.map((member) => sequences[member] ?? []));
    return { members, tokens: paddedLength(tree.tokens.length), tree };
  });
  const lengths = apart.map((member) => computedLength(sequences[member] ?? []));
  const inRows = microBatches(lengths, options.microBatchTokens).map(({ members, tokens }) => ({
    members: members.map((member) => apart[member] as number),
    tokens,
  }));
  return [...inTrees, ...inRows];
}
