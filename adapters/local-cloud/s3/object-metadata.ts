/**
 * @file How an object and its metadata share one file: the bytes, then the metadata as JSON, then the length of the JSON in 4 bytes. A file
 * whose parts are inconsistent is `record-damaged`, with its path.
 */
import { closeSync, openSync, readSync, statSync } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import * as z from "zod";
import { parseJson } from "../../../core/contracts/parse.ts";
import { damagedStorage } from "../storage-faults.ts";

const ObjectMetadata = z.strictObject({
  key: z.string(),
  size: z.number(),
  etag: z.string(),
  /** Milliseconds since 1970. */
  modified: z.number(),
  checksums: z.record(z.string(), z.string()),
  /** Content type, content encoding and x-amz-meta-*, as they are sent back. */
  headers: z.record(z.string(), z.string()),
});
export type ObjectMetadata = Readonly<z.infer<typeof ObjectMetadata>>;

const LENGTH_BYTES = 4;
/** Usually covers all of the metadata, so that one read is enough. */
const TAIL_BYTES = 8192;

/** What follows the bytes. */
export function metadataTrailer(metadata: ObjectMetadata): Buffer {
  const json = Buffer.from(JSON.stringify(metadata));
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32BE(json.length);
  return Buffer.concat([json, length]);
}

/** `path` names the file in errors. */
export async function readMetadata(file: FileHandle, path: string): Promise<ObjectMetadata> {
  const { size } = await file.stat();
  const tail = await readAt(file, Math.max(0, size - TAIL_BYTES), size);
  const length = jsonLength(tail, size, path);
  const isInTail = length + LENGTH_BYTES <= tail.length;
  const trailer = isInTail ? tail : await readAt(file, size - LENGTH_BYTES - length, size);
  return parseMetadata(trailer, length, size, path);
}

/** The bytes of an object whose whole file is in memory. */
export function bytesOf(whole: Buffer, path: string): Uint8Array {
  const { size } = parseMetadata(whole, jsonLength(whole, whole.length, path), whole.length, path);
  return new Uint8Array(whole.buffer, whole.byteOffset, size);
}

/** The size of the object in a file; 0 if there is no such file. */
export function objectSize(path: string): number {
  const fileBytes = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  if (fileBytes < LENGTH_BYTES) return 0;
  const tail = Buffer.alloc(LENGTH_BYTES);
  const file = openSync(path, "r");
  try {
    readSync(file, tail, 0, LENGTH_BYTES, fileBytes - LENGTH_BYTES);
  } finally {
    closeSync(file);
  }
  // Damaged metadata may give any length.
  return Math.max(0, fileBytes - LENGTH_BYTES - tail.readUInt32BE());
}

async function readAt(file: FileHandle, from: number, to: number): Promise<Buffer> {
  const bytes = Buffer.alloc(to - from);
  await file.read(bytes, 0, bytes.length, from);
  return bytes;
}

/** The length of the JSON, from the last bytes of a file. */
function jsonLength(tail: Buffer, fileBytes: number, path: string): number {
  const length = tail.length < LENGTH_BYTES ? undefined : tail.readUInt32BE(tail.length - LENGTH_BYTES);
  if (length === undefined || length + LENGTH_BYTES > fileBytes) throw damagedStorage(path, "its metadata is cut off");
  return length;
}

function parseMetadata(tail: Buffer, length: number, fileBytes: number, path: string): ObjectMetadata {
  const end = tail.length - LENGTH_BYTES;
  const metadata = parseText(tail.toString("utf8", end - length, end), path);
  const size = fileBytes - LENGTH_BYTES - length;
  if (metadata.size !== size)
    throw damagedStorage(path, `it holds ${size} bytes, but its metadata says ${metadata.size}`);
  return metadata;
}

function parseText(text: string, path: string): ObjectMetadata {
  try {
    return parseJson(ObjectMetadata, text, "metadata");
  } catch (cause) {
    throw damagedStorage(path, (cause as Error).message, undefined, cause);
  }
}
