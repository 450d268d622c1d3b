/**
 * @file The predictions that a pass computes, and which tokens of which sequences read them. Sequences that share a row of hidden states read
 * the same prediction if their terms of the loss can be added:
 *
 *     linear          sum of w * logProb, which is linear in w
 *     linear-entropy  the same, minus sum of u * entropy, which is linear in u
 *     clipped-token   min(r A, clip(r) A) is A min(r, 1 + high) for A > 0 and A max(r, 1 - low) for A < 0. If r is the same, the
 *                     advantages have one sign, and so do the weights, sum of w min(r A, clip(r) A) equals w' min(r A', clip(r) A')
 *                     with w' = sum of w and A' = sum of w A / w'
 */
import type { Loss, TrainingSequence } from "../../core/ports.ts";
import type { Sequences } from "./prefix-tree.ts";

/** R predictions, read by S tokens: prediction r by those at offsets[r] ... offsets[r + 1] - 1. */
export interface Predictions {
  /** [R]: the row of hidden states that makes the prediction. */
  readonly row: Int32Array;
  /** [R]: the predicted token. */
  readonly targets: Int32Array;
  /** [R + 1] */
  readonly offsets: Int32Array;
  /** [S]: index of the reader's sequence in the batch, and its token's position there. */
  readonly member: Int32Array;
  readonly position: Int32Array;
}

/** Whether token t of a sequence is predicted, and whether two sequences that share a row can share its prediction of token t. */
export interface WantedPredictions {
  readonly isWanted: (member: number, t: number) => boolean;
  readonly canShare: (a: number, b: number, t: number) => boolean;
}

/** Predictions of all tokens. */
export const EVERY_PREDICTION: WantedPredictions = { isWanted: () => true, canShare: () => true };

/** Whether a token has a weight in the loss. Only `linear-entropy` reads `entropyWeights_T`. */
export const isWeighted = ({ weights_T, entropyWeights_T }: TrainingSequence, t: number, { kind }: Loss): boolean =>
  weights_T[t] !== 0 || (kind === "linear-entropy" && (entropyWeights_T?.[t] ?? 0) !== 0);

/** Predictions of the tokens that have a weight in the loss. */
export function weightedPredictions(batch: readonly TrainingSequence[], loss: Loss): WantedPredictions {
  const isWanted = (member: number, t: number) => isWeighted(batch[member] as TrainingSequence, t, loss);
  if (loss.kind !== "clipped-token") return { isWanted, canShare: () => true };
  const canShare = (a: number, b: number, t: number) => {
    const [one, other] = [batch[a], batch[b]] as [TrainingSequence, TrainingSequence];
    const haveSameSign = (name: "advantages_T" | "weights_T") =>
      Math.sign(one[name]?.[t] ?? 0) === Math.sign(other[name]?.[t] ?? 0);
    // Equal behavior log-probs: the same ratio.
    return (
      haveSameSign("advantages_T") &&
      haveSameSign("weights_T") &&
      one.behaviorLogProbs_T?.[t] === other.behaviorLogProbs_T?.[t]
    );
  };
  return { isWanted, canShare };
}

/** A single row would take the matrix-vector path of a product, which rounds differently. Padding predicts from row 0 and has no readers. */
const MINIMUM_ROWS = 2;
const NONE = -1;

/**
 * Predictions of the members' wanted tokens, in the order of their first readers. `rowOf` gives the row of the i-th member's token t. The first
 * token of a sequence has no prediction.
 */
export function predictions(
  members: readonly number[],
  sequences: Sequences,
  rowOf: (i: number, t: number) => number,
  { isWanted, canShare }: WantedPredictions,
): Predictions {
  const [row, targets, firstReader]: [number[], number[], number[]] = [[], [], []];
  // A row's predictions are linked, the newest first.
  const [newest, older]: [number[], number[]] = [[], []];
  const [member, position, read]: [number[], number[], number[]] = [[], [], []];
  const add = (from: number, target: number, reader: number): number => {
    older.push(newest[from] ?? NONE);
    newest[from] = row.length;
    targets.push(target);
    firstReader.push(reader);
    return row.push(from) - 1;
  };
  members.forEach((index, i) => {
    sequences[index]?.forEach((target, t) => {
      if (t === 0 || !isWanted(index, t)) return;
      const from = rowOf(i, t - 1);
      let r = newest[from] ?? NONE;
      while (r !== NONE && !(targets[r] === target && canShare(firstReader[r] as number, index, t))) {
        r = older[r] as number;
      }
      read.push(r === NONE ? add(from, target, index) : r);
      member.push(index);
      position.push(t);
    });
  });
  while (row.length < MINIMUM_ROWS) add(0, 0, NONE);
  return {
    row: new Int32Array(row),
    targets: new Int32Array(targets),
    ...byPrediction(row.length, read, member, position),
  };
}

/** Sorts the readers by their prediction; readers of the same prediction keep their order. */
function byPrediction(
  count: number,
  read: readonly number[],
  member: readonly number[],
  position: readonly number[],
): Pick<Predictions, "offsets" | "member" | "position"> {
  const offsets = new Int32Array(count + 1);
  for (const r of read) offsets[r + 1] = (offsets[r + 1] as number) + 1;
  for (let r = 0; r < count; r++) offsets[r + 1] = (offsets[r + 1] as number) + (offsets[r] as number);
  const next = offsets.slice();
  const sorted = { member: new Int32Array(read.length), position: new Int32Array(read.length) };
  read.forEach((r, reader) => {
    const slot = next[r] as number;
    next[r] = slot + 1;
    sorted.member[slot] = member[reader] as number;
    sorted.position[slot] = position[reader] as number;
  });
  return { offsets, ...sorted };
}

/** The vectors of `linear` and `clipped-token` (losses.ts), [R]. Those that the loss does not use are zeros. */
export interface LossVectors {
  readonly linearWeights: Float32Array;
  readonly clippedWeights: Float32Array;
  readonly advantages: Float32Array;
  readonly behaviorLogProbs: Float32Array;
}

/** Bounds of the ratio: 1 - clipLow and 1 + clipHigh. For a loss without a clip range, which ignores them: 1 and 1. */
export const clipBounds = (loss: Loss): [lowest: number, highest: number] =>
  loss.kind === "clipped-token" ? [1 - loss.clipLow, 1 + loss.clipHigh] : [1, 1];

/** Adds up the terms of each prediction's readers. */
export function lossVectors(
  { row, offsets, member, position }: Predictions,
  batch: readonly TrainingSequence[],
  loss: Loss,
): LossVectors {
  const count = row.length;
  const weights = new Float32Array(count);
  const [advantages, behaviorLogProbs, none] = [0, 1, 2].map(() => new Float32Array(count)) as [
    Float32Array,
    Float32Array,
    Float32Array,
  ];
  const isLinear = loss.kind !== "clipped-token";
  const weightOf = (s: number) => batch[member[s] as number]?.weights_T[position[s] as number] ?? 0;
  const advantageOf = (s: number) => batch[member[s] as number]?.advantages_T?.[position[s] as number] ?? 0;
  for (let r = 0; r < count; r++) {
    const [begin, end] = [offsets[r] as number, offsets[r + 1] as number];
    if (begin === end) continue;
    let [weight, weighted] = [0, 0];
    for (let s = begin; s < end; s++) {
      weight += weightOf(s);
      weighted += weightOf(s) * advantageOf(s);
    }
    weights[r] = weight;
    if (isLinear) continue;
    advantages[r] = end - begin === 1 ? advantageOf(begin) : weighted / weight;
    behaviorLogProbs[r] = batch[member[begin] as number]?.behaviorLogProbs_T?.[position[begin] as number] ?? 0;
  }
  return {
    linearWeights: isLinear ? weights : none,
    clippedWeights: isLinear ? none : weights,
    advantages,
    behaviorLogProbs,
  };
}

/** The vectors of `linear-entropy` (losses.ts), [R]. */
export interface EntropyVectors {
  readonly linearWeights: Float32Array;
  readonly entropyWeights: Float32Array;
}

/** Adds up the weights of each prediction's readers. */
export function entropyVectors(
  { row, offsets, member, position }: Predictions,
  batch: readonly TrainingSequence[],
): EntropyVectors {
  const [linearWeights, entropyWeights] = [new Float32Array(row.length), new Float32Array(row.length)];
  row.forEach((_, r) => {
    for (let s = offsets[r] as number; s < (offsets[r + 1] as number); s++) {
      const { weights_T, entropyWeights_T } = batch[member[s] as number] as TrainingSequence;
      const t = position[s] as number;
      linearWeights[r] = (linearWeights[r] as number) + (weights_T[t] ?? 0);
      entropyWeights[r] = (entropyWeights[r] as number) + (entropyWeights_T?.[t] ?? 0);
    }
  });
  return { linearWeights, entropyWeights };
}

/** Copies log-probs [R] to their readers: [T] per sequence. */
export function scatterLogProbs(
  into: readonly Float32Array[],
  { offsets, member, position }: Predictions,
  logProbs: Float32Array,
): void {
  logProbs.forEach((logProb, r) => {
    for (let s = offsets[r] as number; s < (offsets[r + 1] as number); s++) {
      const logProbs_T = into[member[s] as number];
      if (logProbs_T) logProbs_T[position[s] as number] = logProb;
    }
  });
}
