/**
 * @file The safetensors format: the header's length in eight bytes, a JSON header with each tensor's offsets, then the tensors' bytes. Tensors are
 * read one by one: F32, F16 and BF16 into float32. Writes F32 or BF16. Equal tensors give equal bytes.
 */
import * as z from "zod";
import { parseJson } from "../../core/contracts/parse.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFile } from "../../core/ports.ts";
import { readBytes, sizeOf } from "./files.ts";

export interface NamedTensor {
  readonly shape: readonly number[];
  readonly values: Float32Array;
}

export type TensorType = "F32" | "F16" | "BF16";

/** A tensor's type and location; begin and end are bytes from the file's start. */
export interface TensorEntry {
  readonly type: TensorType;
  readonly shape: readonly number[];
  /** Elements. */
  readonly length: number;
  readonly begin: number;
  readonly end: number;
}

export interface SafetensorsHeader {
  readonly tensors: ReadonlyMap<string, TensorEntry>;
  readonly metadata: Readonly<Record<string, string>>;
}

const EntryJson = z.strictObject({
  dtype: z.string(),
  shape: z.array(z.int().nonnegative()),
  data_offsets: z.tuple([z.int().nonnegative(), z.int().nonnegative()]),
});
const HeaderJson = z.intersection(
  z.looseObject({ __metadata__: z.record(z.string(), z.string()).optional() }),
  z.record(z.string(), z.unknown()),
);

const PREFIX_BYTES = 8;
/** The reference implementation's limit. */
const MAXIMUM_HEADER_BYTES = 100_000_000;
const BYTES: Readonly<Record<TensorType, number>> = { F32: 4, F16: 2, BF16: 2 };
/** Elements converted at a time. */
const CHUNK_ELEMENTS = 1 << 22;

const damagedIn = (what: string) => (fault: string) =>
  new MgrpoError("checkpoint-damaged", `${what}: ${fault}: download the file again, or restore it from a backup`);

/** `what` names the file in errors. Tensors must fill the file without overlap or gap, as in the reference implementation. */
export function readHeader(file: CheckpointFile, what: string): SafetensorsHeader {
  const damaged = damagedIn(what);
  const size = sizeOf(file);
  if (size < PREFIX_BYTES) throw damaged(`${size} bytes are not a safetensors file`);
  const prefix = readBytes(file, 0, new Uint8Array(PREFIX_BYTES));
  const headerBytes = Number(new DataView(prefix.buffer).getBigUint64(0, true));
  if (headerBytes > MAXIMUM_HEADER_BYTES)
    throw damaged(`a header of ${headerBytes} bytes is too long for a safetensors file`);
  const start = PREFIX_BYTES + headerBytes;
  if (start > size) throw damaged(`cut off inside the header (${size} bytes)`);
  const { __metadata__: metadata = {}, ...entries } = parseJson(
    HeaderJson,
    readBytes(file, PREFIX_BYTES, new Uint8Array(headerBytes)),
    `${what}: header`,
    "checkpoint-damaged",
  );
  const tensors = new Map(
    Object.entries(entries).map(([name, raw]) => [name, entryOf(name, raw, start, what)] as const),
  );
  let before = { name: "the header", end: start };
  for (const [name, { begin, end }] of [...tensors].sort(([, a], [, b]) => a.begin - b.begin || a.end - b.end)) {
    if (begin < before.end) throw damaged(`'${name}' overlaps '${before.name}'`);
    if (begin > before.end) throw damaged(`${begin - before.end} bytes before '${name}' belong to no tensor`);
    if (end > size) throw damaged(`cut off inside '${name}' (${size} of at least ${end} bytes)`);
    before = { name, end };
  }
  if (size > before.end) throw damaged(`${size - before.end} bytes after '${before.name}' belong to no tensor`);
  return { tensors, metadata };
}

function entryOf(name: string, raw: unknown, start: number, what: string): TensorEntry {
  const damaged = damagedIn(what);
  const parsed = EntryJson.safeParse(raw);
  if (!parsed.success) throw damaged(`the header entry of '${name}' is malformed`);
  const { dtype: type, shape, data_offsets } = parsed.data;
  if (!isTensorType(type)) {
    const fault = `${what}: tensor '${name}' is ${type}: convert it to F32, F16 or BF16`;
    throw new MgrpoError("engine-unsupported", fault);
  }
  const [begin, end] = data_offsets;
  const length = shape.reduce((product, size) => product * size, 1);
  if (end - begin !== length * BYTES[type]) throw damaged(`'${name}' has ${end - begin} bytes for shape [${shape}]`);
  return { type, shape, length, begin: start + begin, end: start + end };
}

const isTensorType = (type: string): type is TensorType => type in BYTES;

/** Fills `into` with a tensor's elements from element `from` on, as float32. Half-precision values pass through a bounded buffer. */
export function readTensor(file: CheckpointFile, { type, begin }: TensorEntry, into: Float32Array, from = 0): void {
  if (type === "F32") {
    readBytes(file, begin + 4 * from, new Uint8Array(into.buffer, into.byteOffset, into.byteLength));
    return;
  }
  const chunk = new Uint16Array(Math.min(CHUNK_ELEMENTS, into.length));
  for (let at = 0; at < into.length; at += chunk.length) {
    const halves = chunk.subarray(0, into.length - at);
    readBytes(file, begin + 2 * (from + at), new Uint8Array(halves.buffer, 0, halves.byteLength));
    const part = into.subarray(at, at + halves.length);
    if (type === "BF16") {
      const bits = new Uint32Array(part.buffer, part.byteOffset, part.length);
      for (let i = 0; i < halves.length; i++) bits[i] = (halves[i] as number) << 16;
    } else {
      const values = float16Values();
      for (let i = 0; i < halves.length; i++) part[i] = values[halves[i] as number] as number;
    }
  }
}

/** Types that `writeSafetensors` writes. */
export type WrittenType = Extract<TensorType, "F32" | "BF16">;

/** Bytes that the values take in a file. */
export const storedBytes = ({ length }: Float32Array, dtype: WrittenType): number => length * BYTES[dtype];

/** Writes tensors in the map's order. The header is padded to a multiple of eight bytes, as in the reference implementation. */
export function writeSafetensors(
  tensors: ReadonlyMap<string, NamedTensor>,
  metadata: Readonly<Record<string, string>> = {},
  dtype: WrittenType = "F32",
): Uint8Array {
  const header: Record<string, unknown> = {};
  if (Object.keys(metadata).length > 0) header["__metadata__"] = metadata;
  let offset = 0;
  for (const [name, { shape, values }] of tensors) {
    const end = offset + values.length * BYTES[dtype];
    header[name] = { dtype, shape, data_offsets: [offset, end] };
    offset = end;
  }
  const json = JSON.stringify(header);
  const text = new TextEncoder().encode(json + " ".repeat((8 - (new TextEncoder().encode(json).length % 8)) % 8));
  const bytes = new Uint8Array(PREFIX_BYTES + text.length + offset);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(text.length), true);
  bytes.set(text, PREFIX_BYTES);
  let at = PREFIX_BYTES + text.length;
  for (const { values } of tensors.values()) {
    const { buffer, byteOffset, byteLength } = dtype === "F32" ? values : toBfloat16(values);
    bytes.set(new Uint8Array(buffer, byteOffset, byteLength), at);
    at += byteLength;
  }
  return bytes;
}

/** The values of all 65,536 float16 bit patterns. */
const float16Values = (() => {
  let values: Float32Array | undefined;
  return () => {
    values ??= Float32Array.from({ length: 65536 }, (_, bits) => fromFloat16(bits));
    return values;
  };
})();

/** Rounds float32 to the nearest bfloat16, ties to even. NaN stays NaN. */
export function toBfloat16(values: Float32Array): Uint16Array {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const halves = new Uint16Array(bits.length);
  for (let i = 0; i < bits.length; i++) {
    const word = bits[i] as number;
    const isNaNWord = (word & 0x7fffffff) > 0x7f800000;
    halves[i] = isNaNWord ? (word >>> 16) | 0x40 : (word + 0x7fff + ((word >>> 16) & 1)) >>> 16;
  }
  return halves;
}

export function fromFloat16(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
