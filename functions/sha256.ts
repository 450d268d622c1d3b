/** @file SHA-256 as lower-case hex: the names of parts and the proof that an object is the one that was meant. */
import { createHash } from "node:crypto";

export const sha256 = (bytes: Uint8Array | string): string => createHash("sha256").update(bytes).digest("hex");
