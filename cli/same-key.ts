/** @file Compares the key of a request with a server's own. */
import { createHash, timingSafeEqual } from "node:crypto";

/** Compares in constant time. */
export function isSameKey(given: string, key: string): boolean {
  const hash = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(hash(given), hash(key));
}
