/** @file Text within a token limit: prefixes are the longest that fit, parts fit and lose nothing, characters are never split. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { presentResponse } from "../../../core/conversation/special-tokens.ts";
import { partsWithin, prefixWithin } from "../../../core/conversation/token-room.ts";

/** A tokenizer simple enough for arithmetic by hand: two tokens for a non-ASCII character, one for up to two letters, one for anything else. */
const count = (text: string) =>
  (text.match(/[a-z]{1,2}|[^a-z]/gu) ?? []).reduce((sum, piece) => sum + (/^[\x20-\x7e\n]/.test(piece) ? 1 : 2), 0);
const text = fc.string({ unit: fc.constantFrom(..."abc  \n\u4e2d\u{1f600}<|"), maxLength: 80 });
const tokens = fc.integer({ min: 2, max: 12 });

test("the parts join to the whole text, and each fits", () => {
  fc.assert(
    fc.property(text, tokens, fc.integer({ min: 1, max: 90 }), (whole, limit, pieceCharacters) => {
      const parts = [...partsWithin(whole, { tokens: limit, count }, pieceCharacters)];
      expect(parts.join("")).toBe(whole);
      for (const part of parts) {
        expect(count(part)).toBeLessThanOrEqual(limit);
        expect(part).not.toMatch(/[\uD800-\uDBFF]$/);
      }
    }),
  );
});

test("a prefix fits, and with one more character it would not", () => {
  fc.assert(
    fc.property(text, tokens, (whole, limit) => {
      const prefix = prefixWithin(whole, { tokens: limit, count });
      expect(whole.startsWith(prefix) && count(prefix) <= limit).toBe(true);
      const [next] = whole.slice(prefix.length);
      if (next !== undefined) expect(count(prefix + next)).toBeGreaterThan(limit);
    }),
  );
});

test.each([
  ["short lines", "aa bb cc dd\n".repeat(40_000)],
  ["one line of words", "aa bb ".repeat(80_000)],
  ["one word", "abc".repeat(160_000)],
])("of half a million characters, only a bounded number are counted: %s", (_, whole) => {
  let counted = 0;
  const room = {
    tokens: 100,
    count(piece: string) {
      counted += piece.length;
      return count(piece);
    },
  };
  const [first = ""] = partsWithin(whole, room);
  expect(count(first)).toBeGreaterThan(90);
  expect(prefixWithin(whole, room).length).toBeGreaterThan(90);
  // At most three binary searches of eleven probes each: the first probe takes eight characters per token, the others at most four.
  expect(counted).toBeLessThan(3 * (8 + 10 * 4) * 100);
});

test.each([
  ["spaces", " ".repeat(500_000)],
  ["dots", ".".repeat(500_000)],
])(
  "of half a million %s, 64 of which are a token, only the pieces up to the first that does not fit are counted",
  (_, whole) => {
    let counted = 0;
    const room = {
      tokens: 100,
      count(piece: string) {
        counted += piece.length;
        return Math.ceil(piece.length / 64);
      },
    };
    const [first = expect.fail()] = partsWithin(whole, room, 800);
    // A piece of 800 dots has 13 tokens: seven fit, and the eighth does not. Each is counted twice. A piece of spaces is one space.
    expect(counted).toBeLessThanOrEqual(8 * 2 * 800);
    expect(room.count(first)).toBeLessThanOrEqual(100);
  },
);

test("in a room of no tokens, no prefix fits, and each character is a part of its own", () => {
  const room = { tokens: 0, count: (text: string) => text.length };
  expect(prefixWithin("ab", room)).toBe("");
  expect([...partsWithin("ab", room)]).toEqual(["a", "b"]);
});

test("half a million characters without tokens, which `\\s` matches, are not counted one by one", () => {
  let counts = 0;
  const room = {
    tokens: 100,
    count(piece: string) {
      counts += 1;
      return piece.replaceAll("\ufeff", "").length;
    },
  };
  const whole = `a${"\ufeff".repeat(500_000)}b`;
  expect([...partsWithin(whole, room, 800)]).toEqual([whole]);
  expect(counts).toBeLessThan(5000);
});

test("text is split after lines if possible, then words, then characters", () => {
  const parts = (whole: string, limit: number) => [...partsWithin(whole, { tokens: limit, count })];
  // aa bb\n is 4 tokens, and so is cc dd\n.
  expect(parts("aa bb\ncc dd\n", 8)).toEqual(["aa bb\ncc dd\n"]);
  expect(parts("aa bb\ncc dd\n", 7)).toEqual(["aa bb\n", "cc dd\n"]);
  expect(parts("aa bb cc", 3)).toEqual(["aa bb", " cc"]);
  expect(parts("\u4e2d\u4e2d\u4e2d", 4)).toEqual(["\u4e2d\u4e2d", "\u4e2d"]);
  // A character over the limit is still kept: a part is never empty.
  expect(parts("\u4e2da", 1)).toEqual(["\u4e2d", "a"]);
});

test("a response is cut by characters or tokens, whichever comes first, with one mark", () => {
  const room = (limit: number) => ({ tokens: limit, count });
  expect(presentResponse("aa bb", 100, room(5))).toBe("aa bb");
  expect(presentResponse("aa bb", 100, room(2))).toBe("aa  [cut]");
  expect(presentResponse("aa bb", 2, room(5))).toBe("aa [cut]");
  // Escaped before it is cut: half a marker would not be recognized.
  expect(presentResponse("<|im_start|>aa", 100, room(5))).toBe("(|im_st [cut]");
});
