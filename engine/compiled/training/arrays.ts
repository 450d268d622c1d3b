/** @file Arithmetic on flat vectors. Sums are always taken in the same order. */

export function addInto(sum: Float32Array, terms: Float32Array): void {
  for (let i = 0; i < terms.length; i++) sum[i] = (sum[i] as number) + (terms[i] as number);
}

export function negate(vector: Float32Array): void {
  for (let i = 0; i < vector.length; i++) vector[i] = -(vector[i] as number);
}

export function norm(vector: Float32Array): number {
  let squares = 0;
  for (let i = 0; i < vector.length; i++) squares += (vector[i] as number) ** 2;
  return Math.sqrt(squares);
}

/** Adds row n of `rows` to row index[n] of `into`, in order. Each row has `width` elements. */
export function scatterAdd(into: Float32Array, index: Int32Array, rows: Float32Array, width: number): void {
  for (let n = 0; n < index.length; n++) {
    const [to, from] = [(index[n] as number) * width, n * width];
    for (let i = 0; i < width; i++) into[to + i] = (into[to + i] as number) + (rows[from + i] as number);
  }
}

/** The given rows of x [N, width]. */
export function gatherRows(x: Float32Array, rows: Int32Array, width: number): Float32Array {
  const gathered = new Float32Array(rows.length * width);
  rows.forEach((row, r) => {
    gathered.set(x.subarray(row * width, (row + 1) * width), r * width);
  });
  return gathered;
}
