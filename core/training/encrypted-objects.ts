/** @file Objects that hold what was said about encrypted questions: encrypted on their way into the store, opened on their way out. */
import * as z from "zod";
import { decrypt, encrypt } from "../contracts/encryption.ts";
import { parseJson } from "../contracts/parse.ts";
import type { ObjectStore } from "../ports.ts";

const Encrypted = z.strictObject({ canary: z.string().min(1), encrypted: z.string() });
/** Canonical, so that it starts so. */
const START = '{"canary":';

/** Commits encrypted; what is read may be encrypted or plain. */
export function encryptedObjects(objects: ObjectStore, canary: string): ObjectStore {
  return {
    ...openedObjects(objects),
    commit(key, body) {
      const encrypted: z.infer<typeof Encrypted> = {
        canary,
        encrypted: encrypt(new TextDecoder().decode(body), canary),
      };
      return objects.commit(key, new TextEncoder().encode(JSON.stringify(encrypted)));
    },
  };
}

/** What is encrypted is read as if it were not. */
export function openedObjects(objects: ObjectStore): ObjectStore {
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
