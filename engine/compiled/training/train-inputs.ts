/**
 * @file One micro-batch as arrays. Each of the B * T rows holds a token and predicts the next one, or several where a prefix tree branches. Only
 * the wanted predictions, padded to at least two, reach the head.
 */
import type { Loss, TrainingSequence } from "../../../core/ports.ts";
import { causalMask, type RotaryTable } from "../../model/positions.ts";
import {
  clipBounds,
  type EntropyVectors,
  entropyVectors,
  type LossVectors,
  lossVectors,
  type Predictions,
  predictions,
  type WantedPredictions,
} from "../../model/predictions.ts";
import { fillTreeMask, type Sequences } from "../../model/prefix-tree.ts";
import { type Feeds, tensor } from "../graph-session.ts";
import { gatherRows } from "./arrays.ts";
import { hiddenIndexOf, type MicroBatch, rowCount } from "./batch-plan.ts";

export const wantedPredictions = (micro: MicroBatch, sequences: Sequences, wanted: WantedPredictions): Predictions =>
  predictions(micro.members, sequences, hiddenIndexOf(micro), wanted);

/**
 * Inputs of `gatherTensorRows` (graphs/head.ts): for each of R predictions, its row of the `count` = B * T. `inverseRows` lists for each row the predictions
 * made from it, except those that no token reads, padded with R to `gathers`, the most that one row has.
 */
export function gatherFeeds({ row, targets, offsets }: Predictions, count: number): { feeds: Feeds; gathers: number } {
  const counts = new Int32Array(count);
  const isRead = (r: number) => offsets[r] !== offsets[r + 1];
  row.forEach((from, r) => {
    if (isRead(r)) counts[from] = (counts[from] as number) + 1;
  });
  const gathers = counts.reduce((most, number) => Math.max(most, number), 1);
  const inverseRows = new Int32Array(count * gathers).fill(row.length);
  row.forEach((from, r) => {
    if (!isRead(r)) return;
    counts[from] = (counts[from] as number) - 1;
    inverseRows[from * gathers + (counts[from] as number)] = r;
  });
  const feeds = {
    rows: tensor(row, [row.length]),
    targets: tensor(targets, [row.length]),
    inverseRows: tensor(inverseRows, [inverseRows.length]),
  };
  return { feeds, gathers };
}

/** Rotary angles and mask of a micro-batch, and its tokens [B * T], padded with 0. */
export function forwardFeeds(
  micro: MicroBatch,
  sequences: Sequences,
  rotary: RotaryTable,
): { feeds: Feeds; inputTokens: Int32Array } {
  const { members, tokens, trees } = micro;
  const rows = rowCount(micro);
  const inputTokens = new Int32Array(rows * tokens);
  for (let b = 0; b < rows; b++) {
    inputTokens.set(trees?.[b]?.tokens ?? (sequences[members[b] as number] ?? []).slice(0, tokens), b * tokens);
  }
  const angles = (table: Float32Array) => {
    const sequenceAngles = table.subarray(0, tokens * rotary.half);
    const all = new Float32Array(rows * tokens * rotary.half);
    for (let b = 0; b < rows; b++) {
      const tree = trees?.[b];
      all.set(tree ? gatherRows(table, tree.positions, rotary.half) : sequenceAngles, b * tokens * rotary.half);
    }
    return tensor(all, [rows, tokens, rotary.half]);
  };
  const feeds = { cos: angles(rotary.cos), sin: angles(rotary.sin), mask: maskTensor(micro) };
  return { feeds, inputTokens };
}

/** [T, T] for sequences, [B, 1, T, T] for trees. */
function maskTensor({ tokens, trees }: MicroBatch): Feeds[string] {
  if (!trees) return tensor(causalMask(tokens), [tokens, tokens]);
  const masks = new Float32Array(trees.length * tokens * tokens);
  trees.forEach((tree, b) => {
    fillTreeMask(masks.subarray(b * tokens * tokens, (b + 1) * tokens * tokens), tree, tokens);
  });
  return tensor(masks, [trees.length, 1, tokens, tokens]);
}

/** The inputs of a loss (graphs/loss-head.ts). */
export function lossFeeds(wanted: Predictions, batch: readonly TrainingSequence[], loss: Loss): Feeds {
  if (loss.kind === "linear-entropy") return rowFeeds(entropyVectors(wanted, batch));
  const [lowest, highest] = clipBounds(loss);
  return {
    ...rowFeeds(lossVectors(wanted, batch, loss)),
    lowest: tensor(Float32Array.of(lowest), []),
    highest: tensor(Float32Array.of(highest), []),
  };
}

const rowFeeds = (vectors: LossVectors | EntropyVectors): Feeds =>
  Object.fromEntries(Object.entries(vectors).map(([name, values]) => [name, tensor(values, [values.length])]));
