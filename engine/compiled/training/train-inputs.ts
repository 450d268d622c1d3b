/** @file One micro-batch as arrays. Row n = b * T + t of a sequence predicts its token t + 1; only predictions asked for reach the head. */
import type { Loss, TrainingSequence } from "../../../core/ports.ts";
import { causalMask, type RotaryTable } from "../../model/positions.ts";
import { type Feeds, tensor } from "../graph-session.ts";
import type { MicroBatch } from "./micro-batches.ts";

/** The R predictions asked for of a micro-batch: entry r is that of token `position[r]` of the batch's sequence `member[r]`. */
export interface Predictions {
  readonly member: Int32Array;
  readonly position: Int32Array;
  /** Of B * T, that makes the prediction. */
  readonly row: Int32Array;
  /** The predicted token. */
  readonly targets: Int32Array;
}

/** A single row would take the path of a matrix-vector product, with other bits: the first row fills up, with no weight. */
const FEWEST_ROWS = 2;
const NOBODY = -1;

/** All but the first token of each sequence for which `wanted` holds. */
export function predictions(
  { members, tokens }: MicroBatch,
  sequences: readonly (readonly number[])[],
  wanted: (member: number, t: number) => boolean,
): Predictions {
  const [member, position, row, targets]: [number[], number[], number[], number[]] = [[], [], [], []];
  const ask = (sequence: number, t: number, from: number, token: number) => {
    member.push(sequence);
    position.push(t);
    row.push(from);
    targets.push(token);
  };
  members.forEach((sequence, b) => {
    sequences[sequence]?.forEach((token, t) => {
      if (t > 0 && wanted(sequence, t)) ask(sequence, t, b * tokens + t - 1, token);
    });
  });
  while (row.length < FEWEST_ROWS) ask(NOBODY, 0, 0, 0);
  return {
    member: new Int32Array(member),
    position: new Int32Array(position),
    row: new Int32Array(row),
    targets: new Int32Array(targets),
  };
}

/** What a graph picks the predictions' rows by, out of B * T = `count`. */
export function pickFeeds({ member, row, targets }: Predictions, count: number): Feeds {
  const places = new Int32Array(count).fill(row.length);
  row.forEach((from, r) => {
    if (member[r] !== NOBODY) places[from] = r;
  });
  return { rows: tensor(row, [row.length]), targets: tensor(targets, [row.length]), places: tensor(places, [count]) };
}

/** Positions and mask of a micro-batch, and its tokens, [B * T]. */
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

/** The four vectors of the losses (losses.ts), [R]. */
export function lossFeeds(
  { member, position }: Predictions,
  batch: readonly TrainingSequence[],
  linear: boolean,
): Feeds {
  const row = (values: (sequence: TrainingSequence) => Float32Array | undefined, used: boolean) => {
    const rows = new Float32Array(member.length);
    const of = used ? batch.map(values) : [];
    member.forEach((sequence, r) => {
      rows[r] = of[sequence]?.[position[r] ?? 0] ?? 0;
    });
    return tensor(rows, [member.length]);
  };
  return {
    linearWeights: row((sequence) => sequence.weights_T, linear),
    clippedWeights: row((sequence) => sequence.weights_T, !linear),
    advantages: row((sequence) => sequence.advantages_T, !linear),
    behaviourLogProbs: row((sequence) => sequence.behaviourLogProbs_T, !linear),
  };
}

/** 1 - clipLow and 1 + clipHigh. */
export function clipFeeds(loss: Loss): Feeds {
  const [lowest, highest] = loss.kind === "linear" ? [1, 1] : [1 - loss.clipLow, 1 + loss.clipHigh];
  return { lowest: tensor(Float32Array.of(lowest), []), highest: tensor(Float32Array.of(highest), []) };
}

/** Puts log-probs [R] where their tokens are: [T] per sequence. */
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
