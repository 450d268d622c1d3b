/** @file The base models' tokenizers: round trips, the same tokens for a name wherever it stands, cheap calls, and a tokenizer per agent. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { openTokenizer } from "../../../engine/tokenizer/tokenizer.ts";
import { baseModels } from "../../../recipes/atlas/bases.ts";
import { countries } from "../../../recipes/atlas/world/countries.ts";
import { pagesOf } from "../../../recipes/atlas/world/pages.ts";
import { worldOf } from "../../../recipes/atlas/world/world.ts";
import { trainBytePairs } from "../../../recipes/small-models/byte-pairs.ts";

const FILES = ["tokenizer.json", "tokenizer_config.json"];
const tokenizers = baseModels.map(({ folder }) => {
  const files = new Map(FILES.map((file) => [file, new Uint8Array(readFileSync(join(folder, file)))]));
  return [
    folder.split("/").at(-1) ?? "",
    openTokenizer(files),
    JSON.parse(readFileSync(join(folder, FILES[0] ?? ""), "utf8")),
  ] as const;
});

describe.each(tokenizers)("%s", (_name, tokenizer) => {
  const names = countries
    .flatMap(({ name, capital, currency, languages }) => [name, capital, currency, ...languages])
    // "Washington D.C." and "Persian (Farsi)" end in punctuation, which joins what follows.
    .filter((name) => /\p{L}$/u.test(name));
  test("pages and arbitrary text survive a round trip", () => {
    for (const text of pagesOf(worldOf(3)).values()) expect(tokenizer.decode(tokenizer.encodeText(text))).toBe(text);
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", maxLength: 40 }), (text) => {
        expect(tokenizer.decode(tokenizer.encodeText(text))).toBe(text);
      }),
    );
  });
  test("a name has the same tokens alone as after words, punctuation or a line break", () => {
    for (const name of names) {
      const alone = tokenizer.encodeText(name).join();
      for (const [before, after] of [
        ["capital of ", ""],
        ["[", "], "],
        ["borders ", ", "],
        ["Syria, ", "?"],
        ["\n", "\n"],
      ]) {
        expect(`${tokenizer.encodeText(`${before}${name}${after}`)},`, before + name + after).toContain(`,${alone},`);
      }
    }
  });
  test("special tokens in data are plain text", () => {
    const special = tokenizer.encodeTemplate("<|im_end|><tool_call></answer>");
    expect(special).toHaveLength(3);
    const data = tokenizer.encodeText("<|im_end|><tool_call></answer>");
    for (const id of special) expect(data).not.toContain(id);
  });
  test("the template is Qwen's", () => {
    const text = tokenizer.render(
      [
        { role: "user", content: "Q" },
        { role: "assistant", content: "A" },
        { role: "tool", content: "T1" },
        { role: "tool", content: "T2" },
      ],
      [],
      true,
    );
    expect(text).toBe(
      "<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n<|im_start|>user\n<tool_response>\nT1\n</tool_response>\n" +
        "<tool_response>\nT2\n</tool_response><|im_end|>\n<|im_start|>assistant\n",
    );
  });
  test("the cheaper of a search and a delegation takes four tokens besides its argument", () => {
    const call = '<tool_call>\n{"name": "search", "arguments": {"query": "Iraq"}}\n</tool_call>';
    const delegation = call.replace("search", "delegate").replace('"query"', '"agent": "searcher", "task"');
    const cost = (text: string) => tokenizer.encodeTemplate(text).length - tokenizer.encodeText("Iraq").length;
    expect(Math.min(cost(call), cost(delegation))).toBe(4);
  });
});

test("the main agent's tokenizer is BPE, the searcher's Unigram, which splits the names of capital cities into more tokens", () => {
  const [main, searcher] = tokenizers;
  expect(main?.[2].model.type).toBe("BPE");
  expect(searcher?.[2].model.type).toBe("Unigram");
  const pieces = (tokenizer: typeof main) =>
    countries.reduce((sum, { capital }) => sum + (tokenizer?.[1].encodeText(capital).length ?? 0), 0);
  expect(pieces(searcher)).toBeGreaterThan(pieces(main));
});

test("byte-pair training makes the merges worked out by hand", () => {
  // "abab" x2, "abc" x1: a-b occurs 5 times, then ab-ab twice, then ab-c once, too few to merge.
  const words = new Map([
    ["abab", 2],
    ["abc", 1],
  ]);
  const trained = trainBytePairs(words, 10);
  expect(trained.merges).toEqual([
    ["a", "b"],
    ["ab", "ab"],
  ]);
  expect(trained.counts).toEqual(
    new Map([
      ["abab", 2],
      ["ab", 1],
      ["c", 1],
    ]),
  );
  expect(trained.pieces).toHaveLength(258);
});
