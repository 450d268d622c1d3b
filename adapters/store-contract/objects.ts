/** @file What every ObjectStore does, and S3 beneath it. */
import { equal, ok } from "node:assert/strict";
import type { ObjectStore } from "../../core/ports.ts";
import type { ContractCheck, FreshKeys } from "./check.ts";

const CONCURRENT = 20;
const UPLOADS = 4;
/** One more than S3 deletes in one request, and then some. */
const MANY = 1005;
const LENGTHS = [0, 1, 70_000, 3_000_001];
const AWKWARD = ["a b+c.json", "é/ü.json", "a%2Fb", "~!*'()$&,;=@:?#[]", '<x>&"y"', "..x", "\u{1f30d}"];

const bytes = (text: string) => new TextEncoder().encode(text);
/** Bytes without a pattern that a block boundary could hide. */
function noise(length: number): Uint8Array {
  const noisy = new Uint8Array(length);
  for (let i = 0; i < length; i++) noisy[i] = Math.imul(i, 2654435761) >>> 13;
  return noisy;
}

async function holdsBytes(store: ObjectStore, key: string, body: Uint8Array): Promise<void> {
  const found = await store.get(key);
  ok(
    found && Buffer.compare(found, body) === 0,
    `${key}: ${found?.length ?? "no"} bytes came back, not those of the commit`,
  );
}

export const objectChecks: readonly ContractCheck<ObjectStore>[] = [
  ...LENGTHS.map((length) => ({
    name: `${length} bytes come back as they were committed`,
    async holds(store: ObjectStore, place: FreshKeys) {
      const [key, body] = [place.objectKey(), noise(length)];
      equal(await store.commit(key, body), true);
      await holdsBytes(store, key, body);
      equal(await store.head(key), length);
    },
  })),
  {
    name: "what is not there is not found",
    async verify(store, place) {
      equal(await store.get(place.objectKey()), undefined);
      equal(await store.head(place.objectKey()), undefined);
    },
  },
  {
    name: "the first commit wins (If-None-Match: *); the same bytes again are ours, others are not",
    async verify(store, place) {
      const key = place.objectKey();
      equal(await store.commit(key, bytes("one")), true);
      equal(await store.commit(key, bytes("two")), false, "a second commit overwrote the first");
      equal(await store.commit(key, bytes("one")), true);
      await holdsBytes(store, key, bytes("one"));
    },
  },
  {
    name: `one of ${CONCURRENT} commits at once wins`,
    async verify(store, place) {
      const key = place.objectKey();
      const all = Array.from({ length: CONCURRENT }, (_, i) => store.commit(key, bytes(`writer ${i}`)));
      const won = await Promise.all(all);
      equal(won.filter(Boolean).length, 1, `${won.filter(Boolean).length} writers won`);
      await holdsBytes(store, key, bytes(`writer ${won.indexOf(true)}`));
    },
  },
  ...AWKWARD.map((name) => ({
    name: `the key ${JSON.stringify(name)} is only a key`,
    async holds(store: ObjectStore, place: FreshKeys) {
      const key = place.objectKey(name);
      equal(await store.commit(key, bytes(name)), true);
      await holdsBytes(store, key, bytes(name));
      await store.delete([key]);
      equal(await store.get(key), undefined);
    },
  })),
  {
    name: "delete takes many keys, those that are not there too, and frees them for another commit",
    async verify(store, place) {
      const keys = Array.from({ length: MANY }, (_, i) => place.objectKey(`${i}`));
      const there = keys.filter((_, i) => i % 100 === 0);
      for (const key of there) await store.commit(key, bytes(key));
      await store.delete(keys);
      for (const key of there) equal(await store.head(key), undefined);
      equal(await store.commit(keys[0] ?? "", bytes("again")), true);
      await store.delete([]);
    },
  },
];

/** For a store that sends what is larger than 5 MiB, the least that S3 allows, in parts. */
export const multipartChecks: readonly ContractCheck<ObjectStore>[] = [
  {
    name: "an upload in parts comes back whole, is committed once, and is compared by ranges",
    async verify(store, place) {
      const [key, body] = [place.objectKey("weights"), noise(5 * 2 ** 20 + 12_345)];
      equal(await store.commit(key, body), true);
      await holdsBytes(store, key, body);
      equal(await store.commit(key, body), true, "the same bytes were not recognised");
      const other = body.with(5 * 2 ** 20 + 1, (body[5 * 2 ** 20 + 1] ?? 0) ^ 1);
      equal(await store.commit(key, other), false, "a second upload overwrote the first");
      await holdsBytes(store, key, body);
    },
  },
  {
    name: `one of ${UPLOADS} uploads in parts at once wins`,
    async verify(store, place) {
      const key = place.objectKey("weights");
      const bodies = Array.from({ length: UPLOADS }, (_, i) => noise(5 * 2 ** 20 + 1 + i));
      const won = await Promise.all(bodies.map((body) => store.commit(key, body)));
      equal(won.filter(Boolean).length, 1, `${won.filter(Boolean).length} uploads won`);
      await holdsBytes(store, key, bodies[won.indexOf(true)] ?? bytes(""));
    },
  },
];
