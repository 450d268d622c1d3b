/**
 * @file The sampler's graph where the cache stays on the device: as extend.ts, but the cache of all S slots goes in and comes out, on the device
 * both times, with the new rows in it and its slots in another order.
 */
import * as tf from "@tensorflow/tfjs-core";
import type { PolicyShape } from "../policy-shape.ts";
import { symbolic } from "../trace/dimensions.ts";
import { type TracedGraph, traceGraph } from "../trace/trace.ts";
import { cacheNames, extend } from "./extend.ts";

/** Of what comes out in the place of a layer's keys or values. */
export const updatedCacheName = (name: string): string => `next:${name}`;

/**
 * Inputs: those of extend.ts, but per layer keys [S, KV, hd, C] and values [S, KV, C, hd]; slots [B], the slot whose cache each row reads, and
 * order [S], the one whose cache each slot keeps, both as they lie in the input; source [S, C], which of the B * T new rows lies at a position
 * now, if written [S, C] is 1 there. Outputs: next:keys and next:values per layer; probabilities [B, V].
 */
export function traceExtendOnDevice(shape: PolicyShape): TracedGraph {
  const { kvHeads, headWidth } = shape.config;
  const { batch, cached, rows: slotCount } = symbolic;
  return traceGraph("extend-on-device", (scope) => {
    const slots = scope.input<tf.Tensor1D>("slots", [batch], "int32");
    const order = scope.input<tf.Tensor1D>("order", [slotCount], "int32");
    const source = scope.input<tf.Tensor2D>("source", [slotCount, cached], "int32");
    const written = scope.input("written", [slotCount, cached]);
    /** New rows [B * T, KV, hd] where they are written, in the axes of the cache; elsewhere what was there. */
    const write = (name: string, cache: tf.Tensor, fresh: tf.Tensor, axes: number[], mask: number[]) => {
      const placed = tf.transpose(tf.gather(tf.reshape(fresh, [-1, kvHeads, headWidth]), source), axes);
      // By products, since WebGPU cannot turn the axes of a condition, and the optimizer would.
      const here = tf.reshape(written, mask);
      const kept = tf.mul(tf.gather(cache, order), tf.sub(1, here));
      scope.output(updatedCacheName(name), tf.add(tf.mul(placed, here), kept));
    };
    const caches = (layer: number) => {
      const { keys, values } = cacheNames(layer);
      return {
        keys: scope.input(keys, [slotCount, kvHeads, headWidth, cached]),
        values: scope.input(values, [slotCount, kvHeads, cached, headWidth]),
      };
    };
    const whole = Array.from({ length: shape.config.layers }, (_, layer) => caches(layer));
    extend(shape, scope, {
      cacheOf(layer) {
        const { keys, values } = whole[layer] as ReturnType<typeof caches>;
        return { keys: tf.gather(keys, slots), values: tf.gather(values, slots) };
      },
      put(layer, newKeys, newValues) {
        const { keys, values } = whole[layer] as ReturnType<typeof caches>;
        const names = cacheNames(layer);
        const freshKeys = tf.transpose(newKeys, [0, 3, 1, 2]);
        const freshValues = tf.transpose(newValues, [0, 2, 1, 3]);
        write(names.keys, keys, freshKeys, [0, 2, 3, 1], [slotCount, 1, 1, cached]);
        write(names.values, values, freshValues, [0, 2, 1, 3], [slotCount, 1, cached, 1]);
      },
    });
  });
}
