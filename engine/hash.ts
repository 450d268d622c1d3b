/** @file SHA-256 in hex, which identifies checkpoint files and all records in the store. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import type { CheckpointFile, Hash } from "../core/ports.ts";

export const sha256: Hash = (bytes) => createHash("sha256").update(bytes).digest("hex");

/** Streams files on disk. */
export async function sha256OfFile(file: CheckpointFile): Promise<string> {
  if (file instanceof Uint8Array) return sha256(file);
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(file.path)) hash.update(chunk as Uint8Array);
  return hash.digest("hex");
}
