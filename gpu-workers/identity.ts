/** @file The canonical bytes of a record, and the id of an invocation: equal content has equal bytes and an equal hash. */
import { createHash } from "node:crypto";
import type { InvocationId } from "../core/contracts/names.ts";
import { canonicalJson } from "../core/contracts/parse.ts";
import type { InvocationRequest } from "../core/contracts/rollout.ts";

/** The form in which records are committed and hashed. */
export function recordBytes(record: unknown): Uint8Array {
  return new TextEncoder().encode(canonicalJson(record));
}

/** First 128 bits of the request's SHA-256: an idempotency key, the same in every attempt. */
export function invocationId(request: InvocationRequest): InvocationId {
  return createHash("sha256").update(canonicalJson(request)).digest().subarray(0, 16).toString("base64url");
}
