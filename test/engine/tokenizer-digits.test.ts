/** @file The pre-tokenizer `Digits` splits off every numeral, or every run of numerals, as in Hugging Face's tokenizers. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openTokenizer } from "../../engine/tokenizer/tokenizer.ts";

const FOLDER = join(import.meta.dirname, "../fixtures/tokenizers/qwen2.5");
const read = (name: string) => Uint8Array.from(readFileSync(join(FOLDER, name)));

/** Adds two tokens: 12, and a space with the first byte of ½, which is never used if ½ is split off. */
function withDigits(individual_digits: boolean): Map<string, Uint8Array> {
  const pretokenizers = [
    { type: "Digits", individual_digits },
    { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true },
  ];
  const { model, ...json } = JSON.parse(Buffer.from(read("tokenizer.json")).toString());
  const vocab = { ...model.vocab, ĠÂ: 1000, "12": 1001 };
  const merges = [...model.merges, ["Ġ", "Â"], ["1", "2"]];
  const changed = { ...json, model: { ...model, vocab, merges }, pre_tokenizer: { type: "Sequence", pretokenizers } };
  return new Map([
    ["tokenizer.json", new TextEncoder().encode(JSON.stringify(changed))],
    ["tokenizer_config.json", read("tokenizer_config.json")],
    ["generation_config.json", read("generation_config.json")],
  ]);
}

// tokenizers 0.23.3 splits the text into a, Ġ, Â½, Ġis, Ġ, then 1, 2 or 12, then Ġ and the other numerals.
const [BEFORE, AFTER] = [
  [64, 220, 126, 121, 273, 220],
  [220, 149, 96, 149, 97, 126, 110],
];
test.each([
  ["each numeral alone", true, [16, 17]],
  ["runs of numerals", false, [1001]],
])("Digits splits off %s", (_name, individual, digits) => {
  expect(openTokenizer(withDigits(individual)).encodeText("a ½ is 12 ٣٤²")).toEqual([...BEFORE, ...digits, ...AFTER]);
});
