/** @file An object store for what rollouts of encrypted questions write: objects are encrypted when written and decrypted when read. */
import * as z from "zod";
import { decrypt, encrypt } from "../contracts/encryption.ts";
import { parseJson } from "../contracts/parse.ts";
import { isMgrpoError, MgrpoError } from "../errors.ts";
import type { ObjectStore } from "../ports.ts";

const Encrypted = z.strictObject({ canary: z.string().min(1), encrypted: z.string() });
/** How an encrypted object starts: `commit` writes the canary first, without whitespace. */
const START = '{"canary":';

/** Encrypts what it commits, which must be UTF-8. Reads encrypted and plain objects. */
export function encryptedObjects(objects: ObjectStore, canary: string): ObjectStore {
  return {
    ...decryptedObjects(objects),
    // The caller's `sha256` is that of the plain text, so it is not passed on.
    async commit(key, body) {
      const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
      const encrypted: z.infer<typeof Encrypted> = { canary, encrypted: encrypt(text, canary) };
      return objects.commit(key, new TextEncoder().encode(JSON.stringify(encrypted)));
    },
  };
}

/** Reads encrypted and plain objects. Commits as given. */
export function decryptedObjects(objects: ObjectStore): ObjectStore {
  return {
    ...objects,
    async get(key) {
      const bytes = await objects.get(key);
      if (!bytes || new TextDecoder().decode(bytes.subarray(0, START.length)) !== START) return bytes;
      const { canary, encrypted } = parseJson(Encrypted, bytes, key);
      return new TextEncoder().encode(decryptNamed(key, encrypted, canary));
    },
  };
}

/** `decrypt`, with the object's key in its error. */
function decryptNamed(key: string, encrypted: string, canary: string): string {
  try {
    return decrypt(encrypted, canary);
  } catch (cause) {
    if (!isMgrpoError(cause, "record-damaged")) throw cause;
    throw new MgrpoError("record-damaged", `${key}: ${cause.message}`, { cause });
  }
}
