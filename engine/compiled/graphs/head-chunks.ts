/** @file In layer-by-layer training, the head processes a bounded number of rows at a time, since its arrays are rows x vocabulary. */
import type { Predictions } from "../../model/predictions.ts";

/** Maximum bytes of the head's largest array. */
const HEAD_BYTES = 64 * 2 ** 20;
/** Arrays of that size alive at once: logits, log-probs, probabilities. */
export const HEAD_ARRAYS = 3;
/**
 * With a limit of 3 or more, chunks of similar size have at least two rows each, unless there is only one row: the
 * matrix-vector product of a single row rounds differently.
 */
const MINIMUM_LIMIT = 3;

/** Limit on the rows that the head processes at a time, out of `rows`. */
export const headRows = (vocabulary: number, rows: number): number =>
  Math.min(rows, Math.max(MINIMUM_LIMIT, Math.floor(HEAD_BYTES / (4 * vocabulary))));

/** Splits predictions into chunks of similar size, each of at most `headRows` rows. */
export function headChunks({ row, targets, offsets, ...readers }: Predictions, vocabulary: number): Predictions[] {
  const count = Math.ceil(row.length / headRows(vocabulary, row.length));
  const edge = (i: number) => Math.round((i * row.length) / count);
  return Array.from({ length: count }, (_, i) => {
    const [begin, end] = [edge(i), edge(i + 1)];
    return {
      row: row.subarray(begin, end),
      targets: targets.subarray(begin, end),
      offsets: offsets.subarray(begin, end + 1),
      ...readers,
    };
  });
}
