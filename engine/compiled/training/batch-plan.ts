/**
 * @file How a batch is computed: which sequences share a row as a prefix tree, and which rows form a micro-batch. The plan depends only on the
 * batch, the model and the options, so equal batches give equal bits; trees change results only by rounding. A batch that would
 * gain little from trees is computed without them.
 */
import type { EngineOptions } from "../../../core/ports.ts";
import type { ModelConfig } from "../../checkpoint/config.ts";
import { checkSequences } from "../../model/input-checks.ts";
import { type PrefixTree, prefixTree, type Sequences, treeLength } from "../../model/prefix-tree.ts";
import { planTrees } from "../../model/tree-plan.ts";
import { CAUSAL_SHARE, type RowKind } from "../graphs/train.ts";
import { assignToLanes } from "../lanes.ts";
import { limitsOf, microBatches, type RowSize, RUN_COST_TOKENS } from "./micro-batches.ts";

export interface MicroBatch {
  /** Indices into the lane's part of the batch. */
  readonly members: readonly number[];
  /** Length that every row is padded to. */
  readonly tokens: number;
  /** One tree per row; together they hold the members in order. Absent: each member is a row. */
  readonly trees?: readonly PrefixTree[];
}

export const rowCount = ({ members, trees }: MicroBatch): number => (trees ?? members).length;

export const rowKind = ({ trees }: MicroBatch): RowKind => (trees ? "trees" : "sequences");

/** The index, among the rows x tokens hidden states, of the state of the i-th member's token t. */
export function hiddenIndexOf({ tokens, trees }: MicroBatch): (i: number, t: number) => number {
  if (!trees) return (i, t) => i * tokens + t;
  const nodes = trees.flatMap((tree, row) => tree.nodes.map((path) => path.map((node) => row * tokens + node)));
  return (i, t) => nodes[i]?.[t] ?? 0;
}

/** Estimated cost of a row: a tree or a sequence. The unit is the cost of one token's matrix products in the layers. */
type CostOf = (tokens: number) => number;

/**
 * Cost of a FLOP in attention relative to a FLOP in the layers' matrix products: attention passes over [T, T] arrays
 * several times.
 */
const ATTENTION_COST_FACTOR = 2.5;
/** Trees are used if a batch is estimated to cost at least this many times as much without them. */
const MINIMUM_GAIN = 1.2;

function costOfRow({ width, heads, kvHeads, headWidth, ffnWidth }: ModelConfig): CostOf {
  const products = 2 * width * headWidth * (heads + kvHeads) + 3 * width * ffnWidth;
  const attention = (ATTENTION_COST_FACTOR * 2 * heads * headWidth * CAUSAL_SHARE) / products;
  return (tokens) => tokens * (1 + attention * tokens);
}

/** The sequences of each row: one per row, or several in a tree. */
export interface BatchPlan {
  readonly kind: RowKind;
  readonly rows: readonly (readonly number[])[];
}

/** A tree has at most as many attention scores and predictions as the largest micro-batch of sequences, so it takes no more memory. */
export function planBatch(
  sequences: Sequences,
  predictionsOf: (member: number) => number,
  config: ModelConfig,
  options: EngineOptions,
): BatchPlan {
  const separate = sequences.map((_, member) => [member]);
  if (options.prefixTrees === false) return { kind: "sequences", rows: separate };
  const limits = limitsOf(options);
  const costOf = costOfRow(config);
  const treeLimits = { tokens: Math.floor(Math.sqrt(limits.scores)), predictions: limits.predictions };
  const trees = planTrees(sequences, predictionsOf, costOf, treeLimits);
  const totalCost = (rows: readonly (readonly number[])[]) => {
    const sizes = rows.map((members) => sizeOf(members, sequences, predictionsOf));
    return microBatches(sizes, limits).reduce(
      (sum, group) => sum + RUN_COST_TOKENS + group.rows.length * costOf(group.tokens),
      0,
    );
  };
  const isWorthIt = totalCost(separate) >= MINIMUM_GAIN * totalCost(trees);
  return isWorthIt ? { kind: "trees", rows: trees } : { kind: "sequences", rows: separate };
}

function sizeOf(members: readonly number[], sequences: Sequences, predictionsOf: (member: number) => number): RowSize {
  return {
    tokens: treeLength(members.map((member) => sequences[member] ?? [])),
    predictions: members.reduce((sum, member) => sum + predictionsOf(member), 0),
  };
}

/**
 * The indices of each lane's part of a batch: a tree stays on one lane. Rejects tokens and lengths that the model cannot handle, before any lane
 * computes its part.
 */
export function assignBatch(
  sequences: Sequences,
  lanes: number,
  config: ModelConfig,
  options: EngineOptions,
): readonly (readonly number[])[] {
  checkSequences(sequences, config.vocabulary, options.contextTokens);
  const { kind, rows } = planBatch(sequences, () => 0, config, options);
  const lengths =
    kind === "sequences"
      ? sequences.map((tokens) => tokens.length)
      : rows.map((members) => treeLength(members.map((member) => sequences[member] ?? [])));
  return assignToLanes(lengths, lanes).map((assigned) => assigned.flatMap((row) => rows[row] ?? []));
}

/** Plans the micro-batches of one lane's part of a batch. */
export function planMicroBatches(
  sequences: Sequences,
  predictionsOf: (member: number) => number,
  config: ModelConfig,
  options: EngineOptions,
): MicroBatch[] {
  const { kind, rows } = planBatch(sequences, predictionsOf, config, options);
  const sizes = rows.map((members) => sizeOf(members, sequences, predictionsOf));
  return microBatches(sizes, limitsOf(options)).map((group) => {
    const inGroup = group.rows.map((row) => rows[row] ?? []);
    const trees = () => inGroup.map((members) => prefixTree(members.map((member) => sequences[member] ?? [])));
    return { members: inGroup.flat(), tokens: group.tokens, ...(kind === "trees" && { trees: trees() }) };
  });
}
