/**
 * @file Converts tensors of ggml's types to float32. A quantized tensor is a sequence of blocks; each contains scales and small integers for 32 or 256
 * elements. Layouts and the order of roundings are those of ggml (ggml-quants.c), so the values equal those of its Python package, gguf-py, bit
 * for bit. In ggml's notation, d is a scale, m a minimum and dmin the scale of minima, each a float16.
 */
import { fromFloat16 } from "../checkpoint/safetensors.ts";

/** One of ggml's tensor types. */
export interface GgmlType {
  readonly name: string;
  /** Elements and bytes per block. */
  readonly elements: number;
  readonly bytes: number;
  /** Reads the block at byte `at` and writes its elements into `into`, starting at index `to`. */
  readonly read: (block: DataView, at: number, into: Float32Array, to: number) => void;
}

/** Keyed by ggml's type number. */
export const GGML_TYPES: ReadonlyMap<number, GgmlType> = new Map([
  [0, { name: "F32", elements: 1, bytes: 4, read: (b, at, into, to) => set(into, to, b.getFloat32(at, true)) }],
  [1, { name: "F16", elements: 1, bytes: 2, read: (b, at, into, to) => set(into, to, half(b, at)) }],
  [2, { name: "Q4_0", elements: 32, bytes: 18, read: q4_0 }],
  [3, { name: "Q4_1", elements: 32, bytes: 20, read: q4_1 }],
  [6, { name: "Q5_0", elements: 32, bytes: 22, read: q5_0 }],
  [7, { name: "Q5_1", elements: 32, bytes: 24, read: q5_1 }],
  [8, { name: "Q8_0", elements: 32, bytes: 34, read: q8_0 }],
  [12, { name: "Q4_K", elements: 256, bytes: 144, read: q4K }],
  [13, { name: "Q5_K", elements: 256, bytes: 176, read: q5K }],
  [14, { name: "Q6_K", elements: 256, bytes: 210, read: q6K }],
  [30, { name: "BF16", elements: 1, bytes: 2, read: bf16 }],
]);

/** All elements of a tensor. */
export function dequantize(type: GgmlType, bytes: Uint8Array): Float32Array {
  const blocks = bytes.length / type.bytes;
  const values = new Float32Array(blocks * type.elements);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let block = 0; block < blocks; block++) type.read(view, block * type.bytes, values, block * type.elements);
  return values;
}

const half = (block: DataView, at: number): number => fromFloat16(block.getUint16(at, true));

function set(into: Float32Array, to: number, value: number): void {
  into[to] = value;
}

const scratch = new DataView(new ArrayBuffer(4));

function bf16(block: DataView, at: number, into: Float32Array, to: number): void {
  scratch.setUint32(0, block.getUint16(at, true) << 16, true);
  into[to] = scratch.getFloat32(0, true);
}

/** d, then 32 signed bytes. */
function q8_0(block: DataView, at: number, into: Float32Array, to: number): void {
  const d = half(block, at);
  for (let i = 0; i < 32; i++) into[to + i] = d * block.getInt8(at + 2 + i);
}

/** d, then 16 bytes: low nibbles are elements 0 to 15, high nibbles 16 to 31. */
function q4_0(block: DataView, at: number, into: Float32Array, to: number): void {
  const d = half(block, at);
  for (let i = 0; i < 16; i++) {
    const byte = block.getUint8(at + 2 + i);
    into[to + i] = d * ((byte & 15) - 8);
    into[to + 16 + i] = d * ((byte >> 4) - 8);
  }
}

/** d and m, then as Q4_0. */
function q4_1(block: DataView, at: number, into: Float32Array, to: number): void {
  const [d, m] = [half(block, at), half(block, at + 2)];
  for (let i = 0; i < 16; i++) {
    const byte = block.getUint8(at + 4 + i);
    into[to + i] = Math.fround(d * (byte & 15)) + m;
    into[to + 16 + i] = Math.fround(d * (byte >> 4)) + m;
  }
}

/** d, the fifth bits of the 32 elements, then 16 bytes as in Q4_0. */
function q5_0(block: DataView, at: number, into: Float32Array, to: number): void {
  const d = half(block, at);
  const fifths = block.getUint32(at + 2, true);
  for (let i = 0; i < 32; i++) into[to + i] = d * (fiveBits(block, at + 6, fifths, i) - 16);
}

/** d and m, then as Q5_0. */
function q5_1(block: DataView, at: number, into: Float32Array, to: number): void {
  const [d, m] = [half(block, at), half(block, at + 2)];
  const fifths = block.getUint32(at + 4, true);
  for (let i = 0; i < 32; i++) into[to + i] = Math.fround(d * fiveBits(block, at + 8, fifths, i)) + m;
}

function fiveBits(block: DataView, nibbles: number, fifths: number, i: number): number {
  const byte = block.getUint8(nibbles + (i & 15));
  return (i < 16 ? byte & 15 : byte >> 4) | (((fifths >>> i) & 1) << 4);
}

/** d and dmin, 12 bytes of scales, then 128 bytes of nibbles. */
function q4K(block: DataView, at: number, into: Float32Array, to: number): void {
  for (let group = 0; group < 8; group++) {
    const [factor, offset] = scaleAndMinimum(block, at, group);
    // Two groups share 32 bytes: the even one has the low nibbles.
    const nibbles = at + 16 + 32 * (group >> 1);
    for (let i = 0; i < 32; i++) {
      const byte = block.getUint8(nibbles + i);
      const value = group % 2 === 0 ? byte & 15 : byte >> 4;
      into[to + 32 * group + i] = Math.fround(factor * value) - offset;
    }
  }
}

/** d, dmin and scales as Q4_K, 32 bytes whose bit `group` is the fifth bit of that group's elements, then nibbles as Q4_K. */
function q5K(block: DataView, at: number, into: Float32Array, to: number): void {
  for (let group = 0; group < 8; group++) {
    const [factor, offset] = scaleAndMinimum(block, at, group);
    const nibbles = at + 48 + 32 * (group >> 1);
    for (let i = 0; i < 32; i++) {
      const byte = block.getUint8(nibbles + i);
      const fifth = (block.getUint8(at + 16 + i) >> group) & 1;
      const value = (group % 2 === 0 ? byte & 15 : byte >> 4) | (fifth << 4);
      into[to + 32 * group + i] = Math.fround(factor * value) - offset;
    }
  }
}

/** For a group of 32 elements of a Q4_K or Q5_K block: 12 bytes after d and dmin pack eight scales and eight minima of 6 bits each. */
function scaleAndMinimum(block: DataView, at: number, group: number): [factor: number, offset: number] {
  const [d, dmin] = [half(block, at), half(block, at + 2)];
  const packed = (i: number) => block.getUint8(at + 4 + i);
  const isLow = group < 4;
  const scale = isLow ? packed(group) & 63 : (packed(group + 4) & 15) | ((packed(group - 4) >> 6) << 4);
  const minimum = isLow ? packed(group + 4) & 63 : (packed(group + 4) >> 4) | ((packed(group) >> 6) << 4);
  return [Math.fround(d * scale), Math.fround(dmin * minimum)];
}

/** 128 bytes with the low four bits, 64 bytes with the high two, 16 signed scales, then d. */
function q6K(block: DataView, at: number, into: Float32Array, to: number): void {
  const d = half(block, at + 208);
  for (let i = 0; i < 256; i++) {
    const [part, within] = [i >> 7, i & 127];
    const [quarter, column] = [within >> 5, within & 31];
    const low = block.getUint8(at + 64 * part + 32 * (quarter & 1) + column);
    const high = block.getUint8(at + 128 + 32 * part + column);
    const value = ((quarter < 2 ? low & 15 : low >> 4) | (((high >> (2 * quarter)) & 3) << 4)) - 32;
    const scale = block.getInt8(at + 192 + 8 * part + 2 * quarter + (column >> 4));
    into[to + i] = Math.fround(d * scale) * value;
  }
}
