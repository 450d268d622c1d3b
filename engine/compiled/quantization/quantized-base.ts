/**
 * @file The quantized base of an adapter: the linear layers as codes and scales in one file, which the sessions of sampler and trainer memory-map.
 * Embedding, head, norms and biases stay as the checkpoint has them.
 */
import { closeSync, openSync, writeSync } from "node:fs";
import type { Quantization } from "../../../core/contracts/engine.ts";
import { MgrpoError } from "../../../core/errors.ts";
import type { CheckpointFiles } from "../../../core/ports.ts";
import { type ModelConfig, readModelConfig } from "../../checkpoint/config.ts";
import { linearParameters, type Parameter, parameterLayout } from "../../checkpoint/parameters.ts";
import type { TensorLocation } from "../../checkpoint/tensors.ts";
import { locateParameters, readWeights } from "../../checkpoint/weights.ts";
import { type Bits, BLOCK, codeBytes, quantizeBlocks, zeroPointOf } from "./blocks.ts";

/** A weight matrix [outputs, inputs]; offsets are bytes from the file's start. */
export interface QuantizedTensor {
  readonly name: string;
  readonly outputs: number;
  readonly inputs: number;
  readonly codesOffset: number;
  readonly scalesOffset: number;
}

export interface QuantizedBase {
  readonly bits: Bits;
  readonly path: string;
  readonly tensors: readonly QuantizedTensor[];
  /** Where the zero points begin: one for each block of the largest matrix. All matrices share them. */
  readonly zerosOffset: number;
}

const BITS: Readonly<Record<Exclude<Quantization, "none">, Bits>> = { int4: 4, int8: 8 };
export const bitsOf = (quantization: Quantization | undefined): Bits | undefined =>
  quantization === undefined || quantization === "none" ? undefined : BITS[quantization];

const blocksOf = ({ length }: Parameter) => length / BLOCK;
const FLOAT_BYTES = 4;

/** The layout of the file, and its size in bytes. */
export function planQuantizedBase(config: ModelConfig, bits: Bits) {
  let offset = 0;
  const reserve = (bytes: number) => {
    const begin = offset;
    offset += bytes;
    return begin;
  };
  const parameters = linearParameters(config);
  const tensors = parameters.map((parameter): QuantizedTensor => {
    const [outputs = 0, inputs = 0] = parameter.shape;
    const codesOffset = reserve(codeBytes(parameter.length, bits));
    const scalesOffset = reserve(FLOAT_BYTES * blocksOf(parameter));
    return { name: parameter.name, outputs, inputs, codesOffset, scalesOffset };
  });
  const zerosBytes = Math.ceil(codeBytes(Math.max(...parameters.map(blocksOf)), bits));
  return { tensors, zerosOffset: reserve(zerosBytes), zerosBytes, bytes: offset };
}

/** Quantizes the linear layers one by one into a new file: the same checkpoint gives the same bytes. */
export function writeQuantizedBase(files: CheckpointFiles, bits: Bits, path: string): QuantizedBase {
  const config = readModelConfig(files);
  const { tensors, zerosOffset, zerosBytes, bytes } = planQuantizedBase(config, bits);
  const locations = locateParameters(files, config, parameterLayout(config));
  const file = openSync(path, "wx", 0o600);
  try {
    for (const { name, outputs, inputs, codesOffset, scalesOffset } of tensors) {
      const weights = readWeights(locations.get(name) as TensorLocation, new Float32Array(outputs * inputs));
      const blocks = quantizeBlocks(weights, bits);
      writeAt(file, blocks.codes, codesOffset);
      writeAt(file, new Uint8Array(blocks.scales.buffer), scalesOffset);
    }
    const zeroPoint = zeroPointOf(bits);
    writeAt(file, new Uint8Array(zerosBytes).fill(bits === 4 ? zeroPoint | (zeroPoint << 4) : zeroPoint), zerosOffset);
  } catch (cause) {
    throw fullDisk(path, bytes, cause);
  } finally {
    closeSync(file);
  }
  return { bits, path, tensors, zerosOffset };
}

/** A full disk as an MgrpoError; any other error as it is. */
function fullDisk(path: string, bytes: number, cause: unknown): unknown {
  const { code = "" } = cause as NodeJS.ErrnoException;
  if (!/^(ENOSPC|EDQUOT)$/.test(code)) return cause;
  const fault = `${path}: the disk is full (${code}), and the quantized base takes ${Math.ceil(bytes / 1e6)} MB`;
  const advice = "free some space, or set TMPDIR to a folder on another disk";
  return new MgrpoError("disk-full", `${fault}: ${advice}`, { cause });
}

function writeAt(file: number, bytes: Uint8Array, offset: number): void {
  for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at, bytes.length - at, offset + at);
}
