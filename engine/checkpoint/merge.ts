/** @file Merges an adapter into its base: W + alpha / rank * B A. */
import { type Adapter, adapterNames } from "./adapter.ts";
import { type Parameter, views } from "./parameters.ts";
import type { Checkpoint } from "./weights.ts";

/** Adds the adapter to the checkpoint's weights in place. Sums in float64 and rounds once. */
export function mergeAdapter({ layout, weights }: Checkpoint, adapter: Adapter): void {
  const { rank, alpha } = adapter.lora;
  const factors = views(adapter.layout, adapter.weights);
  const whole = views(layout, weights);
  for (const parameter of layout.parameters) {
    const { down, up } = adapterNames(parameter.name);
    const [a, b, w] = [factors.get(down), factors.get(up), whole.get(parameter.name)];
    if (a && b && w) addProduct(w, a, b, parameter, rank, alpha / rank);
  }
}

/** w [out, in] += scale * b [out, rank] a [rank, in]. */
function addProduct(
  w: Float32Array,
  a: Float32Array,
  b: Float32Array,
  { shape }: Parameter,
  rank: number,
  scale: number,
): void {
  const [out = 0, inputs = 0] = shape;
  const row = new Float64Array(inputs);
  for (let o = 0; o < out; o++) {
    row.fill(0);
    for (let r = 0; r < rank; r++) {
      const factor = scale * (b[o * rank + r] as number);
      for (let i = 0; i < inputs; i++) row[i] = (row[i] as number) + factor * (a[r * inputs + i] as number);
    }
    for (let i = 0; i < inputs; i++) w[o * inputs + i] = (w[o * inputs + i] as number) + (row[i] as number);
  }
}
