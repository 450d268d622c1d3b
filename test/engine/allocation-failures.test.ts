/** @file A failed array allocation fails one call of a sampler and leaves the sampler's caches unchanged. */
import { afterEach, expect, test, vi } from "vitest";
import type { Feeds, GraphSession } from "../../engine/compiled/graph-session.ts";
import { cacheNames } from "../../engine/compiled/graphs/extend.ts";
import { HostDecoder } from "../../engine/compiled/sampling/host-decoder.ts";
import { KvCache } from "../../engine/compiled/sampling/kv-cache.ts";
import { PrefixCache } from "../../engine/compiled/sampling/prefix-cache.ts";
import { MASK_VALUE } from "../../engine/model/positions.ts";
import { TINY } from "./tiny.ts";

const FAILURE = "Array buffer allocation failed";
const SLOTS = 3;
const CONTEXT = 200;
/** Keys and values of every layer. */
const ARRAYS = 2 * TINY.layers;

afterEach(() => vi.unstubAllGlobals());

/** Makes the n-th allocation of a float32 array from now fail, counted from 1. */
function failAllocation(n: number): void {
  let count = 0;
  const construct: ProxyHandler<Float32ArrayConstructor>["construct"] = (target, args, newTarget) => {
    if (typeof args[0] === "number" && ++count === n) throw new RangeError(FAILURE);
    return Reflect.construct(target, args, newTarget) as object;
  };
  vi.stubGlobal("Float32Array", new Proxy(Float32Array, { construct }));
}

/** Keys and values of `tokens` tokens, all numbers different. */
function keysAndValues(tokens: number, first: number) {
  const size = TINY.kvHeads * TINY.headWidth * tokens;
  const arrays = Array.from({ length: ARRAYS }, (_, index) =>
    Float32Array.from({ length: size }, (_x, i) => first + index * size + i),
  );
  return { tokens, arrays };
}

test.each(Array.from({ length: ARRAYS }, (_, i) => i + 1))(
  "a KV cache that cannot be widened at array %i keeps its keys and values, and is widened later",
  (failing) => {
    const cache = new KvCache(TINY, SLOTS, CONTEXT);
    const cached = Array.from({ length: SLOTS }, (_, slot) => keysAndValues(20 + slot, 10_000 * (slot + 1)));
    cached.forEach((kv, slot) => {
      cache.restore(slot, kv);
    });
    const parked = () => cached.map(({ tokens }, slot) => cache.park(slot, tokens));
    failAllocation(failing);
    expect(() => cache.reserve(150)).toThrow(FAILURE);
    vi.unstubAllGlobals();
    expect(parked()).toEqual(cached);
    cache.swap(0, 2);
    cache.swap(0, 2);
    cache.reserve(150);
    expect(cache.width).toBe(192);
    expect(parked()).toEqual(cached);
  },
);

test("a decode whose mask cannot be widened does not change the mask of the next", async () => {
  const masks: Feeds[string][] = [];
  const session = {
    async run({ batch = 0 }: { batch?: number }, { mask }: Feeds) {
      if (mask) masks.push(mask);
      const rows = new Float32Array(batch * TINY.kvHeads * TINY.headWidth);
      const names = Array.from({ length: TINY.layers }, (_, layer) => cacheNames(layer));
      return Object.fromEntries(names.flatMap(({ newKeys, newValues }) => [newKeys, newValues].map((k) => [k, rows])));
    },
  } as unknown as GraphSession;
  const decoder = new HostDecoder(session, TINY, {}, SLOTS, CONTEXT);
  decoder.place(0, 5, 70, 1);
  // The arrays of the cache are widened first.
  failAllocation(ARRAYS + 1);
  await expect(decoder.decode(1)).rejects.toThrow(FAILURE);
  vi.unstubAllGlobals();
  decoder.place(0, 5, 2, 1);
  decoder.place(1, 5, 3, 1);
  await decoder.decode(2);
  const [mask] = masks;
  // Of the 128 cached positions, the first row sees the first 2, the second row the first 3. Both see the new token, at 128.
  const row = (visible: number) => Array.from({ length: 129 }, (_, t) => (t < visible || t === 128 ? 0 : MASK_VALUE));
  expect(mask?.dims).toEqual([2, 1, 1, 1, 129]);
  expect(Array.from(mask?.data as Float32Array)).toEqual([2, 3].flatMap(row).map(Math.fround));
});

test("the prefix cache has no entry for a distribution that it failed to store", () => {
  const cache = new PrefixCache(4096);
  const row = new Float32Array(4096).fill(1);
  failAllocation(1);
  expect(() => cache.set("a", row)).toThrow(FAILURE);
  vi.unstubAllGlobals();
  expect(cache.get("a")).toBeUndefined();
  cache.set("b", row);
  expect(cache.get("b")?.[0]).toBe(1);
});
