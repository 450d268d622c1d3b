/** @file An object store for what rollouts of encrypted questions write: objects are encrypted when written and decrypted when read. */
import * as z from "zod";
import { decrypt, encrypt } from "../contracts/encryption.ts";
import { parseJson } from "../contracts/parse.ts";
import type { ObjectStore } from "../ports.ts";

const Encrypted = z.strictObject({ canary: z.string().min(1), encrypted: z.string() });
/** How an encrypted object starts: its JSON is canonical. */
const START = '{"canary":';

/** Encrypts what it commits. Reads encrypted and plain objects. */
export function encryptedObjects(objects: ObjectStore, canary: string): ObjectStore {
  return {
    ...decryptedObjects(objects),
    commit(key, body) {
      const encrypted: z.infer<typeof Encrypted> = {
        canary,
        encrypted: encrypt(new TextDecoder().decode(body), canary),
      };
      return objects.commit(key, new TextEncoder().encode(JSON.stringify(encrypted)));
    },
  };
}

/** Reads encrypted and plain objects. Commits as given. */
export function decryptedObjects(objects: ObjectStore): ObjectStore {
  return {
    commit: (key, body) => objects.commit(key, body),
    head: (key) => objects.head(key),
    delete: (keys) => objects.delete(keys),
    async get(key) {
      const bytes = await objects.get(key);
      if (!bytes || new TextDecoder().decode(bytes.subarray(0, START.length)) !== START) return bytes;
      const { canary, encrypted } = parseJson(Encrypted, bytes, key);
      return new TextEncoder().encode(decrypt(encrypted, canary));
    },
  };
}
