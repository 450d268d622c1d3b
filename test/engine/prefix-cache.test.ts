/** @file Shared-prefix deduplication in decoding: of concurrent and of later sequences, until they diverge. */
import { afterEach, expect, test, vi } from "vitest";
import { DeviceDecoder } from "../../engine/compiled/sampling/device-decoder.ts";
import { HostDecoder } from "../../engine/compiled/sampling/host-decoder.ts";
import type { DecodeMode } from "../../engine/compiled/sampling/open-decoder.ts";
import { PrefixCache } from "../../engine/compiled/sampling/prefix-cache.ts";
import { openCompiledSampler } from "../../engine/compiled/sampling/sampler.ts";
import { OPTIONS, tinyCheckpoint } from "./tiny.ts";

const PROMPT = [5, 6, 7];
const TOKENS = 8;
/** At this temperature, sequences share a prefix for a while and all diverge in the end. */
const WARM = 0.45;

afterEach(() => vi.restoreAllMocks());

/** A sampler that is always given the same prompt; `rows` returns the number of rows of each decode. */
async function open(mode?: DecodeMode) {
  const decode = vi.spyOn((mode === "device" ? DeviceDecoder : HostDecoder).prototype, "decode");
  const sampler = await openCompiledSampler(tinyCheckpoint(), { ...OPTIONS, provider: "cpu" }, mode);
  return {
    close: () => sampler.close(),
    rows: () => decode.mock.calls.map(([count]) => count),
    generate: (sequence: string, temperature: number, maxTokens = TOKENS) =>
      sampler.sample({
        sequence,
        tokens: PROMPT,
        maxTokens,
        stop: [],
        stream: ["recall", sequence],
        sampling: { temperature, topP: 1, topK: 0 },
      }),
  };
}

test("sequences with the same prefix and next token are decoded in one row", async () => {
  const { generate, rows, close } = await open();
  const [a, b, c] = await Promise.all(["a", "b", "c"].map((name) => generate(name, 0)));
  expect([b, c]).toEqual([a, a]);
  expect(rows()).toEqual(Array.from({ length: TOKENS }, () => 1));
  await close();
});

test("a later sequence is decoded only beyond the tokens that it shares with an earlier one", async () => {
  const { generate, rows, close } = await open();
  const first = await generate("a", 0);
  const before = rows().length;
  expect(await generate("b", 0)).toEqual(first);
  expect(rows()).toHaveLength(before);
  const longer = await generate("c", 0, TOKENS + 2);
  expect(longer.tokens.slice(0, TOKENS)).toEqual(first.tokens);
  expect(rows().slice(before)).toEqual([1, 1]);
  await close();
});

test("sequences with different temperatures do not share a decoded row", async () => {
  const { generate, rows, close } = await open();
  const [a, b] = await Promise.all([generate("a", 1e-3, 1), generate("b", 1, 1)]);
  expect(rows()).toEqual([1, 1]);
  expect(a?.logProbs[0]).not.toBe(b?.logProbs[0]);
  await close();
});

test.each<[DecodeMode, boolean]>([
  ["step", true],
  ["step", false],
  ["device", true],
  ["device", false],
])("diverged sequences have the bits that each has alone: %s, with the prefix cache: %s", async (mode, isCached) => {
  if (!isCached) vi.spyOn(PrefixCache.prototype, "get").mockReturnValue(undefined);
  const names = ["a", "b", "c", "d", "e", "f", "g", "h"];
  const together = await open(mode);
  const samples = await Promise.all(names.map((name) => together.generate(name, WARM, 20)));
  await together.close();
  const prefixes = (tokens: number) => new Set(samples.map((sample) => sample.tokens.slice(0, tokens).join())).size;
  expect(prefixes(2)).toBe(1);
  expect(prefixes(20)).toBe(names.length);
  const rows = together.rows().reduce((sum, count) => sum + count, 0);
  expect(rows).toBeGreaterThan(0);
  expect(rows).toBeLessThan(names.length * 20 * 0.9);
  for (const [i, name] of names.entries()) {
    const alone = await open(mode);
    expect(await alone.generate(name, WARM, 20), name).toEqual(samples[i]);
    await alone.close();
  }
});

test("a sequence is decoded again once no slot holds its prefix, even if its distributions are cached", async () => {
  const { generate, rows, close } = await open();
  const first = await generate("a", 0);
  // Enough other sequences to take every slot.
  for (let i = 0; i < 2 * OPTIONS.slots; i++) await generate(`other ${i}`, 10, 2);
  const before = rows().length;
  expect(await generate("b", 0)).toEqual(first);
  expect(rows().length).toBeGreaterThan(before);
  await close();
});

test("the prefix cache evicts the oldest distribution, and stores none for a large vocabulary", () => {
  const cache = new PrefixCache(4096);
  const row = (value: number) => new Float32Array(4096).fill(value);
  for (let i = 0; i <= 1024; i++) cache.set(String(i), row(i));
  expect([cache.get("0"), cache.get("1")?.[0], cache.get("1024")?.[0]]).toEqual([undefined, 1, 1024]);
  const long = new PrefixCache(151_936);
  long.set("a", new Float32Array(151_936));
  expect(long.get("a")).toBeUndefined();
});
