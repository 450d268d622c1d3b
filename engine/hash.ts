/** @file SHA-256 in hex, by which records refer to checkpoint files and to each other. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { CheckpointFile, Hash } from "../core/ports.ts";

/** Node.js cannot hash 2 GiB or more in one call. */
const CHUNK_BYTES = 2 ** 30;
/** Hashed in about 0.1 seconds. */
const TURN_BYTES = 32 * 2 ** 20;

export const sha256: Hash = (bytes) =>
  typeof bytes === "string" ? createHash("sha256").update(bytes).digest("hex") : sha256InChunks(bytes, CHUNK_BYTES);

/** The hash of the concatenated texts, which together may be longer than a string can be. */
export function sha256OfTexts(texts: Iterable<string>): string {
  const hash = createHash("sha256");
  for (const text of texts) hash.update(text);
  return hash.digest("hex");
}

export function sha256InChunks(bytes: Uint8Array, chunkBytes: number): string {
  const hash = createHash("sha256");
  for (let at = 0; at < bytes.length; at += chunkBytes) hash.update(bytes.subarray(at, at + chunkBytes));
  return hash.digest("hex");
}

/** Other work, such as heartbeats, gets its turn between two chunks. */
export async function sha256InTurns(bytes: Uint8Array): Promise<string> {
  const hash = createHash("sha256");
  for (let at = 0; at < bytes.length; at += TURN_BYTES) {
    if (at > 0) await nextTurn();
    hash.update(bytes.subarray(at, at + TURN_BYTES));
  }
  return hash.digest("hex");
}

/** Streams files on disk. */
export async function sha256OfFile(file: CheckpointFile): Promise<string> {
  if (file instanceof Uint8Array) return sha256(file);
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(file.path)) hash.update(chunk as Uint8Array);
  return hash.digest("hex");
}
