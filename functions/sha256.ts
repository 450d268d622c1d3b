/** @file SHA-256 as lower-case hex. It checks that an object is the one that a record refers to, and derives job ids. */
import { createHash } from "node:crypto";

export const sha256 = (bytes: Uint8Array | string): string => createHash("sha256").update(bytes).digest("hex");
