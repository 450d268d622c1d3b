/** @file One micro-batch as arrays. Row n = b * T + t predicts token t + 1 of sequence b; only wanted predictions reach the head. */
import type { Loss, TrainingSequence } from "../../../core/ports.ts";
import { causalMask, type RotaryTable } from "../../model/positions.ts";
import { type Feeds, tensor } from "../graph-session.ts";
import type { MicroBatch } from "./micro-batches.ts";

/** The R wanted predictions of a micro-batch: entry r predicts token `position[r]` of the batch's sequence `member[r]`. */
export interface Predictions {
  readonly member: Int32Array;
  readonly position: Int32Array;
  /** The row of B * T that makes the prediction. */
  readonly row: Int32Array;
  /** The predicted token. */
  readonly targets: Int32Array;
}

/** A single row would take the matrix-vector path of a product, which rounds differently: row 0 pads with zero weight. */
const MINIMUM_ROWS = 2;
const PADDING = -1;

/** Predictions of the tokens that `isWanted` selects. The first token of a sequence has none. */
export function predictions(
  { members, tokens }: MicroBatch,
  sequences: readonly (readonly number[])[],
  isWanted: (member: number, t: number) => boolean,
): Predictions {
  const [member, position, row, targets]: [number[], number[], number[], number[]] = [[], [], [], []];
  const add = (sequence: number, t: number, from: number, token: number) => {
    member.push(sequence);
    position.push(t);
    row.push(from);
    targets.push(token);
  };
  members.forEach((sequence, b) => {
    sequences[sequence]?.forEach((token, t) => {
      if (t > 0 && isWanted(sequence, t)) add(sequence, t, b * tokens + t - 1, token);
    });
  });
  while (row.length < MINIMUM_ROWS) add(PADDING, 0, 0, 0);
  return {
    member: new Int32Array(member),
    position: new Int32Array(position),
    row: new Int32Array(row),
    targets: new Int32Array(targets),
  };
}

/** Indices by which the graph picks the R predicting rows out of B * T = `count`, and their inverse. */
export function pickFeeds({ member, row, targets }: Predictions, count: number): Feeds {
  const positionInRows = new Int32Array(count).fill(row.length);
  row.forEach((from, r) => {
    if (member[r] !== PADDING) positionInRows[from] = r;
  });
  return {
    rows: tensor(row, [row.length]),
    targets: tensor(targets, [row.length]),
    places: tensor(positionInRows, [count]),
  };
}

/** Rotary angles and mask of a micro-batch, and its tokens [B * T], padded with 0. */
export function forwardFeeds(
  { members, tokens }: MicroBatch,
  sequences: readonly (readonly number[])[],
  rotary: RotaryTable,
): { feeds: Feeds; sources: Int32Array } {
  const count = members.length * tokens;
  const sources = new Int32Array(count);
  members.forEach((member, b) => {
    sources.set((sequences[member] ?? []).slice(0, tokens), b * tokens);
  });
  const angles = (table: Float32Array) => {
    const one = table.subarray(0, tokens * rotary.half);
    const all = new Float32Array(count * rotary.half);
    for (let b = 0; b < members.length; b++) all.set(one, b * one.length);
    return tensor(all, [members.length, tokens, rotary.half]);
  };
  const feeds = {
    cos: angles(rotary.cos),
    sin: angles(rotary.sin),
    mask: tensor(causalMask(tokens), [tokens, tokens]),
  };
  return { feeds, sources };
}

/** The four vectors of the losses (model/losses.ts), [R]; zeros for the loss that is not used. */
export function lossFeeds({ member, position }: Predictions, batch: readonly TrainingSequence[], loss: Loss): Feeds {
  const isLinear = loss.kind === "linear";
  const row = (values: (sequence: TrainingSequence) => Float32Array | undefined, isUsed: boolean) => {
    const rows = new Float32Array(member.length);
    const columns = isUsed ? batch.map(values) : [];
    member.forEach((sequence, r) => {
      rows[r] = columns[sequence]?.[position[r] ?? 0] ?? 0;
    });
    return tensor(rows, [member.length]);
  };
  return {
    linearWeights: row((sequence) => sequence.weights_T, isLinear),
    clippedWeights: row((sequence) => sequence.weights_T, !isLinear),
    advantages: row((sequence) => sequence.advantages_T, !isLinear),
    behaviourLogProbs: row((sequence) => sequence.behaviourLogProbs_T, !isLinear),
  };
}

/** 1 - clipLow and 1 + clipHigh. */
export function clipFeeds(loss: Loss): Feeds {
  const [lowest, highest] = loss.kind === "linear" ? [1, 1] : [1 - loss.clipLow, 1 + loss.clipHigh];
  return { lowest: tensor(Float32Array.of(lowest), []), highest: tensor(Float32Array.of(highest), []) };
}

/** Scatters log-probs [R] to their tokens' positions: [T] per sequence. */
export function scatterLogProbs(
  into: readonly Float32Array[],
  { member, position }: Predictions,
  logProbs: Float32Array | undefined,
): void {
  member.forEach((sequence, r) => {
    const logProbs_T = into[sequence];
    if (logProbs_T) logProbs_T[position[r] ?? 0] = logProbs?.[r] ?? 0;
  });
}
