/** @file SHA-256 as lower-case hex. It names parts, and verifies that an object is the one a record refers to. */
import { createHash } from "node:crypto";

export const sha256 = (bytes: Uint8Array | string): string => createHash("sha256").update(bytes).digest("hex");
