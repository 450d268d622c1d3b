/** @file The chunks of rows that the output head processes. */
import { expect, test } from "vitest";
import { headChunks, headRows } from "../../engine/compiled/graphs/head-chunks.ts";

/** One row of logits is as large as the head's largest array may be, so the limit is its minimum: 3 rows. */
const VOCABULARY = 2 ** 24;

test.each([3, 5, 7])("%i rows: no chunk is a single row, which would round differently", (rows) => {
  const row = Int32Array.from({ length: rows }, (_, r) => r);
  const offsets = Int32Array.from({ length: rows + 1 }, (_, r) => r);
  const chunks = headChunks({ row, targets: row, offsets, member: row, position: row }, VOCABULARY);
  const sizes = chunks.map((chunk) => chunk.row.length);
  expect(Math.min(...sizes)).toBeGreaterThanOrEqual(2);
  expect(Math.max(...sizes)).toBeLessThanOrEqual(headRows(VOCABULARY, rows));
  expect(chunks.flatMap((chunk) => [...chunk.row])).toEqual([...row]);
});
