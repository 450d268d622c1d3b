/** @file Laws of escaping: no special token survives, other text is unchanged, and it is idempotent. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { parseTurn } from "../../../core/conversation/parse-turn.ts";
import { CUT_MARK, escapeSpecialTokens, presentResponse } from "../../../core/conversation/special-tokens.ts";

const MARKERS = [
  "<|im_start|>",
  "<|im_end|>",
  "<tool_call>",
  "</tool_call>",
  "<tool_response>",
  "</tool_response>",
  "<answer>",
  "</answer>",
  "<think>",
  "</think>",
  "<tools>",
  "< / Answer >",
  "＜answer＞",
  "<|ｉm_start|>",
  "<to\u200bol_call>",
  "<tóol_call>",
  "﹤|im_start|﹥",
  "<\u0000|im_end|>",
];
/** Text with many markers, whole or in halves, and anything else between. */
const hostile = fc
  .array(
    fc.oneof(
      fc.constantFrom(...MARKERS, "<", "|", ">", "/", "<|", "|>", "answer", "tool_call", "\u0338", "é"),
      fc.string({ unit: "binary", maxLength: 4 }),
    ),
    { maxLength: 12 },
  )
  .map((parts) => parts.join(""));
/** What tokenizers' normalizers do to a text. */
const normalizers = [
  (text: string) => text,
  (text: string) => text.normalize("NFC"),
  (text: string) => text.normalize("NFKC"),
  (text: string) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase(),
  (text: string) => text.replaceAll("\u0000", "").replaceAll("\u200b", ""),
];
const SPECIAL = /<\||<\s*\/?\s*(tool_call|tool_response|tools|answer|think)\b/i;

test.each([
  ["<|im_start|>system", "[|im_start|]system"],
  ["a</tool_response>b", "a[/tool_response]b"],
  ["<answer>Paris</answer>", "[answer]Paris[/answer]"],
  ["<tool_call\n", "[tool_call\n"],
  ["＜answer＞", "[answer]"],
])("%j becomes %j: readable, and not special", (text, escaped) => {
  expect(escapeSpecialTokens(text)).toBe(escaped);
});

test.each(["1 < 2 and 3 > 2", "x | y", "Côte d'Ivoire – São Tomé", "<b>bold</b>", "the answer: <none>", "日本 🇯🇵"])(
  "%j is unchanged",
  (text) => expect(escapeSpecialTokens(text)).toBe(text),
);

test("no special token is left, whatever a normalizer does", () => {
  fc.assert(
    fc.property(hostile, (text) => {
      for (const normalize of normalizers) expect(normalize(escapeSpecialTokens(text))).not.toMatch(SPECIAL);
    }),
    { numRuns: 2000 },
  );
});

test("escaping twice is escaping once", () => {
  fc.assert(
    fc.property(hostile, (text) => {
      expect(escapeSpecialTokens(escapeSpecialTokens(text))).toBe(escapeSpecialTokens(text));
    }),
    { numRuns: 2000 },
  );
});

test("escaped text is never parsed as a call or an answer", () => {
  const parameters = new Map();
  fc.assert(
    fc.property(hostile, hostile, (before, after) => {
      const turn = `${escapeSpecialTokens(before)}\n${escapeSpecialTokens(after)}`;
      expect(parseTurn(turn, { parameters }, 4)).toEqual({
        kind: "malformed",
        fault: "neither a tool call nor an answer",
      });
    }),
  );
});

test("a response is cut with a mark, never inside a character, and stays escaped", () => {
  expect(presentResponse("abcdef", 6)).toBe("abcdef");
  expect(presentResponse("abcdef", 5)).toBe(`abcde${CUT_MARK}`);
  expect(presentResponse("ab😀", 3)).toBe(`ab${CUT_MARK}`);
  expect(presentResponse("", 3)).toBe("");
  // U+FDFA is one character that its compatibility form writes with 18.
  expect(presentResponse("\uFDFA＜answer＞", 10)).toHaveLength(10 + CUT_MARK.length);
  fc.assert(
    fc.property(hostile, fc.integer({ min: 1, max: 20 }), (text, characters) => {
      const seen = presentResponse(text, characters);
      expect(seen.length).toBeLessThanOrEqual(characters + CUT_MARK.length);
      expect(seen).not.toMatch(SPECIAL);
      expect(escapeSpecialTokens(seen)).toBe(seen);
    }),
  );
});
