/** @file The state of the Adam optimizer, as it is saved and loaded. */

export interface AdamState {
  readonly m: Float32Array;
  readonly v: Float32Array;
  /** Number of updates so far. */
  step: number;
}

export const freshAdamState = (length: number): AdamState => ({
  m: new Float32Array(length),
  v: new Float32Array(length),
  step: 0,
});
