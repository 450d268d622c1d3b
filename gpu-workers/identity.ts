/** @file What a record and an invocation are known by: equal content has equal bytes, and so an equal hash. */
import { createHash } from "node:crypto";
import type { InvocationId } from "../core/contracts/names.ts";
import { canonicalJson } from "../core/contracts/parse.ts";
import type { InvocationRequest } from "../core/contracts/rollout.ts";

/** A record's one byte form: what is committed, and what its hash is taken of. */
export function recordBytes(record: unknown): Uint8Array {
  return new TextEncoder().encode(canonicalJson(record));
}

/** First 128 bits of the request's SHA-256: the same request has the same id in every attempt. */
export function invocationId(request: InvocationRequest): InvocationId {
  return createHash("sha256").update(canonicalJson(request)).digest().subarray(0, 16).toString("base64url");
}
