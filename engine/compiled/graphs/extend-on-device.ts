/**
 * @file The sampler's graph for a KV cache on the device: like extend.ts, but the cache of all S slots is an input and an output, both on
 * the device. In the output, the new rows are written and the slots are reordered.
 */
import * as tf from "@tensorflow/tfjs-core";
import type { LaneOptions } from "../lanes.ts";
import type { PolicyShape } from "../policy-shape.ts";
import { symbolic } from "../trace/dimensions.ts";
import { type TracedGraph, traceGraph } from "../trace/trace.ts";
import { cacheNames, extend } from "./extend.ts";

/** The output that replaces a layer's keys or values. */
export const updatedCacheName = (name: string): string => `next:${name}`;

/**
 * Inputs: those of extend.ts, with keys [S, KV, hd, C] and values [S, KV, C, hd] per layer; slots [B], the input slot that each row attends
 * to; order [S], the input slot that each output slot copies; written [S, C], 1 at positions that get a new row;
 * source [S, C], the index of that row among the B * T new rows. Outputs: next:keys and next:values per layer;
 * probabilities [B, V].
 */
export function traceExtendOnDevice(shape: PolicyShape, options: LaneOptions): TracedGraph {
  const { kvHeads, headWidth } = shape.config;
  const { batch, cached, rows: slotCount } = symbolic;
  return traceGraph("extend-on-device", (scope) => {
    const slots = scope.input<tf.Tensor1D>("slots", [batch], "int32");
    const order = scope.input<tf.Tensor1D>("order", [slotCount], "int32");
    const source = scope.input<tf.Tensor2D>("source", [slotCount, cached], "int32");
    const written = scope.input("written", [slotCount, cached]);
    /** Outputs a cache with the new rows [B * T, KV, hd] at the written positions, and its previous contents elsewhere. */
    const write = (name: string, cache: tf.Tensor, fresh: tf.Tensor, axes: number[], maskShape: number[]) => {
      const placed = tf.transpose(tf.gather(tf.reshape(fresh, [-1, kvHeads, headWidth]), source), axes);
      // Products instead of Where: onnxruntime would move the transpose to the condition, and its WebGPU provider cannot transpose booleans.
      const isWritten = tf.reshape(written, maskShape);
      const kept = tf.mul(tf.gather(cache, order), tf.sub(1, isWritten));
      scope.output(updatedCacheName(name), tf.add(tf.mul(placed, isWritten), kept));
    };
    const caches = (layer: number) => {
      const { keys, values } = cacheNames(layer);
      return {
        keys: scope.input(keys, [slotCount, kvHeads, headWidth, cached]),
        values: scope.input(values, [slotCount, kvHeads, cached, headWidth]),
      };
    };
    const layers = Array.from({ length: shape.config.layers }, (_, layer) => caches(layer));
    extend(shape, options, scope, {
      cacheOf(layer) {
        const { keys, values } = layers[layer] as ReturnType<typeof caches>;
        return { keys: tf.gather(keys, slots), values: tf.gather(values, slots) };
      },
      put(layer, newKeys, newValues) {
        const { keys, values } = layers[layer] as ReturnType<typeof caches>;
        const names = cacheNames(layer);
        const freshKeys = tf.transpose(newKeys, [0, 3, 1, 2]);
        const freshValues = tf.transpose(newValues, [0, 2, 1, 3]);
        write(names.keys, keys, freshKeys, [0, 2, 3, 1], [slotCount, 1, 1, cached]);
        write(names.values, values, freshValues, [0, 2, 1, 3], [slotCount, 1, cached, 1]);
      },
    });
  });
}
