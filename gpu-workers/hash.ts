/** @file SHA-256, of which every identity in the store is made. */
import { createHash } from "node:crypto";
import type { InvocationId } from "../core/contracts/names.ts";
import { canonicalJson } from "../core/contracts/parse.ts";
import type { InvocationRequest } from "../core/contracts/rollout.ts";
import type { Hash } from "../core/ports.ts";

export const sha256: Hash = (bytes) => createHash("sha256").update(bytes).digest("hex");

/** A record's one byte form: what is committed, and what its hash is taken of. */
export function recordBytes(record: unknown): Uint8Array {
  return new TextEncoder().encode(canonicalJson(record));
}

/** First 128 bits of the SHA-256 of everything that was asked: the same question to a sub-agent has the same id, always. */
export function invocationId(request: InvocationRequest): InvocationId {
  return createHash("sha256").update(canonicalJson(request)).digest().subarray(0, 16).toString("base64url");
}
