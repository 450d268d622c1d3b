/** @file One micro-batch as arrays. Row n = b * T + t of a sequence predicts its token t + 1; padded rows weigh nothing. */
import type { TrainingSequence } from "../../../core/ports.ts";
import { causalMask, type RotaryTable } from "../model/positions.ts";
import type { MicroBatch } from "./batches.ts";
import { type Feeds, tensor } from "./session.ts";

/** Feeds that do not depend on the loss. `lookUp` writes the embedding of a token into a row. */
export function forwardFeeds(
  batch: MicroBatch,
  sequences: readonly (readonly number[])[],
  embedding: Float32Array,
  width: number,
  rotary: RotaryTable,
): { feeds: Feeds; targets: Int32Array; sources: Int32Array } {
  const { members, tokens } = batch;
  const rows = members.length * tokens;
  const targets = new Int32Array(rows);
  const sources = new Int32Array(rows);
  members.forEach((member, b) => {
    const sequence = sequences[member] ?? [];
    for (let t = 0; t < sequence.length; t++) {
      if (t < tokens) sources[b * tokens + t] = sequence[t] ?? 0;
      if (t > 0) targets[b * tokens + t - 1] = sequence[t] ?? 0;
    }
  });
  const embedded = new Float32Array(rows * width);
  for (let row = 0; row < rows; row++) {
    const source = (sources[row] ?? 0) * width;
    embedded.set(embedding.subarray(source, source + width), row * width);
  }
  const angles = (table: Float32Array) => {
    const one = table.subarray(0, tokens * rotary.half);
    const all = new Float32Array(rows * rotary.half);
    for (let b = 0; b < members.length; b++) all.set(one, b * one.length);
    return tensor(all, [members.length, tokens, rotary.half]);
  };
  const feeds = {
    embedded: tensor(embedded, [members.length, tokens, width]),
    cos: angles(rotary.cos),
    sin: angles(rotary.sin),
    mask: tensor(causalMask(tokens), [tokens, tokens]),
    targets: tensor(targets, [rows]),
  };
  return { feeds, targets, sources };
}

/** The four vectors of the losses (losses.ts), [B * T]. */
export function lossFeeds(batch: MicroBatch, sequences: readonly TrainingSequence[], linear: boolean): Feeds {
  const { members, tokens } = batch;
  const rows = members.length * tokens;
  const [linearWeights, clippedWeights, advantages, behaviourLogProbs] = [0, 1, 2, 3].map(
    () => new Float32Array(rows),
  ) as [Float32Array, Float32Array, Float32Array, Float32Array];
  members.forEach((member, b) => {
    const sequence = sequences[member];
    if (!sequence) return;
    for (let t = 1; t < sequence.tokens.length; t++) {
      const weight = sequence.weights_T[t] ?? 0;
      if (weight === 0) continue;
      const row = b * tokens + t - 1;
      if (linear) {
        linearWeights[row] = weight;
        continue;
      }
      clippedWeights[row] = weight;
      advantages[row] = sequence.advantages_T?.[t] ?? 0;
      behaviourLogProbs[row] = sequence.behaviourLogProbs_T?.[t] ?? 0;
    }
  });
  return Object.fromEntries(
    Object.entries({ linearWeights, clippedWeights, advantages, behaviourLogProbs }).map(([name, values]) => [
      name,
      tensor(values, [rows]),
    ]),
  );
}

/** Adds row n of `rows` to row index[n] of a [V, D] gradient, in order. */
export function scatterAdd(into: Float32Array, index: Int32Array, rows: Float32Array, width: number): void {
  for (let n = 0; n < index.length; n++) {
    const [to, from] = [(index[n] ?? 0) * width, n * width];
    for (let i = 0; i < width; i++) into[to + i] = (into[to + i] as number) + (rows[from + i] as number);
  }
}
