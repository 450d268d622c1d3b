/** @file Reads whole safetensors files, for tests that compare what they hold. */

import type { CheckpointFile } from "../../core/ports.ts";
import {
  type NamedTensor,
  readHeader,
  readTensor,
  type SafetensorsHeader,
  type TensorEntry,
} from "../../engine/checkpoint/safetensors.ts";

interface Safetensors extends Pick<SafetensorsHeader, "metadata"> {
  readonly tensors: ReadonlyMap<string, NamedTensor>;
}

/** All tensors of a small file, as float32. `what` names the file in errors. */
export function readSafetensors(file: CheckpointFile, what: string): Safetensors {
  const { tensors, metadata } = readHeader(file, what);
  const read = ([name, entry]: [string, TensorEntry]): [string, NamedTensor] => {
    const values = new Float32Array(entry.length);
    readTensor(file, entry, values);
    return [name, { shape: entry.shape, values }];
  };
  return { tensors: new Map([...tensors].map(read)), metadata };
}
