/** @file Conversations that say the same are decoded once: beside each other, one after the other, and until they part. */
import { afterEach, expect, test, vi } from "vitest";
import { DeviceDecoder } from "../../engine/compiled/sampling/device-decoder.ts";
import { HostDecoder } from "../../engine/compiled/sampling/host-decoder.ts";
import { PrefixCache } from "../../engine/compiled/sampling/prefix-cache.ts";
import { type Decoding, openCompiledSampler } from "../../engine/compiled/sampling/sampler.ts";
import { OPTIONS, TINY, tinyCheckpoint } from "./tiny.ts";

const PROMPT = [5, 6, 7];
const TOKENS = 8;
/** Some say the same for a while, and all part in the end. */
const WARM = 0.45;

afterEach(() => vi.restoreAllMocks());

/** `samples` of the same prompt, and how many rows each decode had. */
async function open(decoding?: Decoding) {
  const decode = vi.spyOn((decoding === "device" ? DeviceDecoder : HostDecoder).prototype, "decode");
  const sampler = await openCompiledSampler(tinyCheckpoint(), { ...OPTIONS, provider: "cpu" }, decoding);
  return {
    close: () => sampler.close(),
    rows: () => decode.mock.calls.map(([count]) => count),
    say: (sequence: string, temperature: number, maxTokens = TOKENS) =>
      sampler.sample({
        ...{ sequence, tokens: PROMPT, maxTokens, stop: [], stream: ["recall", sequence] },
        sampling: { temperature, topP: 1, topK: 0 },
      }),
  };
}

test("who says the same at the same time is decoded in one row", async () => {
  const { say, rows, close } = await open();
  const [a, b, c] = await Promise.all(["a", "b", "c"].map((name) => say(name, 0)));
  expect([b, c]).toEqual([a, a]);
  expect(rows()).toEqual(Array.from({ length: TOKENS }, () => 1));
  await close();
});

test("who says later what others said is not decoded, until it says something else", async () => {
  const { say, rows, close } = await open();
  const first = await say("a", 0);
  const before = rows().length;
  expect(await say("b", 0)).toEqual(first);
  expect(rows()).toHaveLength(before);
  const longer = await say("c", 0, TOKENS + 2);
  expect(longer.tokens.slice(0, TOKENS)).toEqual(first.tokens);
  expect(rows().slice(before)).toEqual([1, 1]);
  await close();
});

test("another temperature is another distribution", async () => {
  const { say, rows, close } = await open();
  const [a, b] = await Promise.all([say("a", 1e-3, 1), say("b", 1, 1)]);
  expect(rows()).toEqual([1, 1]);
  expect(a?.logProbs[0]).not.toBe(b?.logProbs[0]);
  await close();
});

test.each<[Decoding, boolean]>([
  ["step", true],
  ["step", false],
  ["device", true],
  ["device", false],
])("who parts goes on by itself: %s, distributions kept: %s", async (decoding, kept) => {
  if (!kept) vi.spyOn(PrefixCache.prototype, "get").mockReturnValue(undefined);
  const names = ["a", "b", "c", "d", "e", "f", "g", "h"];
  const together = await open(decoding);
  const said = await Promise.all(names.map((name) => together.say(name, WARM, 20)));
  await together.close();
  const begun = (tokens: number) => new Set(said.map((sample) => sample.tokens.slice(0, tokens).join())).size;
  expect(begun(2)).toBe(1);
  expect(begun(20)).toBe(names.length);
  const rows = together.rows().reduce((sum, count) => sum + count, 0);
  expect(rows).toBeGreaterThan(0);
  expect(rows).toBeLessThan(names.length * 20 * 0.9);
  for (const [i, name] of names.entries()) {
    const alone = await open(decoding);
    expect(await alone.say(name, WARM, 20), name).toEqual(said[i]);
    await alone.close();
  }
});

test("a cache that is gone is computed anew, though what followed is known", async () => {
  const { say, rows, close } = await open();
  const first = await say("a", 0);
  // As many as there are slots, and none of them says what a said.
  for (let i = 0; i < 2 * OPTIONS.slots; i++) await say(`other ${i}`, 50, 2);
  const before = rows().length;
  expect(await say("b", 0)).toEqual(first);
  expect(rows().length).toBeGreaterThan(before);
  await close();
});

test("distributions are kept as long as there is room, the newest ones, and long ones not at all", () => {
  const recall = new PrefixCache(4096);
  const row = (value: number) => new Float32Array(4096).fill(value);
  for (let i = 0; i <= 1024; i++) recall.put(String(i), row(i));
  expect([recall.get("0"), recall.get("1")?.[0], recall.get("1024")?.[0]]).toEqual([undefined, 1, 1024]);
  const long = new PrefixCache(151_936);
  long.put("a", new Float32Array(151_936));
  expect(long.get("a")).toBeUndefined();
  expect(new PrefixCache(TINY.vocabulary).get("b")).toBeUndefined();
});
