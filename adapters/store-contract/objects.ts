/** @file The contract of every ObjectStore, and so of the S3 API beneath it. */
import { equal, ok } from "node:assert/strict";
import type { ObjectStore } from "../../core/ports.ts";
import type { ContractCheck, FreshKeys } from "./check.ts";

const WRITERS = 20;
const UPLOADS = 4;
/** More keys than S3 deletes in one request. */
const BEYOND_A_REQUEST = 1005;
const LENGTHS = [0, 1, 70_000, 3_000_001];
const AWKWARD_NAMES = ["a b+c.json", "é/ü.json", "a%2Fb", "~!*'()$&,;=@:?#[]", '<x>&"y"', "..x", "\u{1f30d}"];

const bytes = (text: string) => new TextEncoder().encode(text);
/** A byte sequence with a period of 4 GiB, so that swapped blocks cannot go unnoticed. */
function noise(length: number): Uint8Array {
  const noisy = new Uint8Array(length);
  for (let i = 0; i < length; i++) noisy[i] = Math.imul(i, 2654435761) >>> 24;
  return noisy;
}

async function expectBytes(store: ObjectStore, key: string, body: Uint8Array): Promise<void> {
  const stored = await store.get(key);
  ok(
    stored && Buffer.compare(stored, body) === 0,
    `${key}: ${stored?.length ?? "no"} bytes came back, not the committed ones`,
  );
}

export const objectChecks: readonly ContractCheck<ObjectStore>[] = [
  ...LENGTHS.map((length) => ({
    name: `${length} bytes come back as they were committed`,
    async verify(store: ObjectStore, keys: FreshKeys) {
      const [key, body] = [keys.objectKey(), noise(length)];
      equal(await store.commit(key, body), true);
      await expectBytes(store, key, body);
      equal(await store.head(key), length);
    },
  })),
  {
    name: "an object that does not exist is not found",
    async verify(store, keys) {
      equal(await store.get(keys.objectKey()), undefined);
      equal(await store.head(keys.objectKey()), undefined);
    },
  },
  {
    name: "the first commit wins (If-None-Match: *): the same bytes again succeed, other bytes are refused",
    async verify(store, keys) {
      const key = keys.objectKey();
      equal(await store.commit(key, bytes("one")), true);
      equal(await store.commit(key, bytes("two")), false, "a second commit overwrote the first");
      equal(await store.commit(key, bytes("one")), true);
      await expectBytes(store, key, bytes("one"));
    },
  },
  {
    name: `one of ${WRITERS} concurrent commits wins`,
    async verify(store, keys) {
      const key = keys.objectKey();
      const all = Array.from({ length: WRITERS }, (_, i) => store.commit(key, bytes(`writer ${i}`)));
      const won = await Promise.all(all);
      equal(won.filter(Boolean).length, 1, `${won.filter(Boolean).length} writers won`);
      await expectBytes(store, key, bytes(`writer ${won.indexOf(true)}`));
    },
  },
  ...AWKWARD_NAMES.map((name) => ({
    name: `the key ${JSON.stringify(name)} is stored as it is`,
    async verify(store: ObjectStore, keys: FreshKeys) {
      const key = keys.objectKey(name);
      equal(await store.commit(key, bytes(name)), true);
      await expectBytes(store, key, bytes(name));
      await store.delete([key]);
      equal(await store.get(key), undefined);
    },
  })),
  {
    name: "delete accepts many keys, missing ones too, and frees them for another commit",
    async verify(store, keys) {
      const all = Array.from({ length: BEYOND_A_REQUEST }, (_, i) => keys.objectKey(`${i}`));
      const stored = all.filter((_, i) => i % 100 === 0);
      for (const key of stored) await store.commit(key, bytes(key));
      await store.delete(all);
      for (const key of stored) equal(await store.head(key), undefined);
      equal(await store.commit(all[0] ?? "", bytes("again")), true);
      await store.delete([]);
    },
  },
];

/** For a store that uploads bodies over 5 MiB in parts of 5 MiB, the minimum that S3 allows. */
export const multipartChecks: readonly ContractCheck<ObjectStore>[] = [
  {
    name: "a multipart upload comes back whole: the same bytes again succeed, other bytes are refused",
    async verify(store, keys) {
      const [key, body] = [keys.objectKey("weights"), noise(5 * 2 ** 20 + 12_345)];
      equal(await store.commit(key, body), true);
      await expectBytes(store, key, body);
      equal(await store.commit(key, body), true, "the same bytes were not recognized");
      const other = body.with(5 * 2 ** 20 + 1, (body[5 * 2 ** 20 + 1] ?? 0) ^ 1);
      equal(await store.commit(key, other), false, "a second upload overwrote the first");
      await expectBytes(store, key, body);
    },
  },
  {
    name: `one of ${UPLOADS} concurrent multipart uploads wins`,
    async verify(store, keys) {
      const key = keys.objectKey("weights");
      const bodies = Array.from({ length: UPLOADS }, (_, i) => noise(5 * 2 ** 20 + 1 + i));
      const won = await Promise.all(bodies.map((body) => store.commit(key, body)));
      equal(won.filter(Boolean).length, 1, `${won.filter(Boolean).length} uploads won`);
      await expectBytes(store, key, bodies[won.indexOf(true)] ?? bytes(""));
    },
  },
];
