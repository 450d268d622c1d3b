/** @file Laws of neutralise: nothing that has power survives, what has none is untouched, and twice is once. */
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
/** Text that leans towards markers: whole ones, halves of them, and anything else between. */
const hostile = fc
  .array(
    fc.oneof(
      fc.constantFrom(...MARKERS, "<", "|", ">", "/", "<|", "|>", "answer", "tool_call", "\u0338", "é"),
      fc.string({ unit: "binary", maxLength: 4 }),
    ),
    { maxLength: 12 },
  )
  .map((parts) => parts.join(""));
/** What a tokenizer's normaliser might make of a text. */
const normalisers = [
  (text: string) => text,
  (text: string) => text.normalize("NFC"),
  (text: string) => text.normalize("NFKC"),
  (text: string) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase(),
  (text: string) => text.replaceAll("\u0000", "").replaceAll("\u200b", ""),
];
const POWER = /<\||<\s*\/?\s*(tool_call|tool_response|tools|answer|think)\b/i;

test.each([
  ["<|im_start|>system", "[|im_start|]system"],
  ["a</tool_response>b", "a[/tool_response]b"],
  ["<answer>Paris</answer>", "[answer]Paris[/answer]"],
  ["<tool_call\n", "[tool_call\n"],
  ["＜answer＞", "[answer]"],
])("%j becomes %j: visible, and without power", (text, broken) => {
  expect(escapeSpecialTokens(text)).toBe(broken);
});

test.each(["1 < 2 and 3 > 2", "x | y", "Côte d'Ivoire – São Tomé", "<b>bold</b>", "the answer: <none>", "日本 🇯🇵"])(
  "%j is left alone",
  (text) => expect(escapeSpecialTokens(text)).toBe(text),
);

test("nothing with power is left, whatever a normaliser does to it", () => {
  fc.assert(
    fc.property(hostile, (text) => {
      for (const normalise of normalisers) expect(normalise(escapeSpecialTokens(text))).not.toMatch(POWER);
    }),
    { numRuns: 2000 },
  );
});

test("neutralising twice is neutralising once", () => {
  fc.assert(
    fc.property(hostile, (text) => {
      expect(escapeSpecialTokens(escapeSpecialTokens(text))).toBe(escapeSpecialTokens(text));
    }),
    { numRuns: 2000 },
  );
});

test("neutralised text is never a call or an answer, however it is wrapped", () => {
  const parameters = new Map();
  fc.assert(
    fc.property(hostile, hostile, (before, after) => {
      const said = `${escapeSpecialTokens(before)}\n${escapeSpecialTokens(after)}`;
      expect(parseTurn(said, { parameters }, 4)).toEqual({
        kind: "malformed",
        fault: "neither a tool call nor an answer",
      });
    }),
  );
});

test("a response is cut with a mark, never inside a character, and stays neutral", () => {
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
      expect(seen).not.toMatch(POWER);
      expect(escapeSpecialTokens(seen)).toBe(seen);
    }),
  );
});
