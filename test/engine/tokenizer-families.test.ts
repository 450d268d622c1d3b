/** @file Tokenizers and chat templates built as Llama 3, Qwen 2.5 and Mistral build theirs give what Hugging Face's own libraries give. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { openTokenizer } from "../../engine/tokenizer/tokenizer.ts";
import { checkVocabulary, readTokenizerJson, withoutLeadingSpace } from "../../engine/tokenizer/vocabulary.ts";
import type { RenderedConversation } from "../fixtures/rendered-conversation.ts";
import { withFile } from "../fixtures/tokenizers.ts";
import { expectLaidOutAsRendered } from "./layout-contract.ts";

/** Written by test/fixtures/tokenizers/make.py. */
interface Reference {
  /** Encoded as continuations of other text. */
  readonly texts: readonly { text: string; ids: number[]; decoded: string }[];
  readonly conversations: readonly RenderedConversation[];
  readonly ends: number[];
}

const FOLDER = join(import.meta.dirname, "../fixtures/tokenizers");
const FILES = ["tokenizer.json", "tokenizer_config.json", "generation_config.json"];
const read = (family: string, name: string) => Uint8Array.from(readFileSync(join(FOLDER, family, name)));
const filesOf = (family: string) => new Map(FILES.map((name) => [name, read(family, name)]));

describe.each([
  ["llama3", "<|eot_id|>"],
  ["qwen2.5", "<|im_end|>"],
  ["mistral", "</s>"],
])("%s", (family, end) => {
  const tokenizer = openTokenizer(filesOf(family));
  const reference = JSON.parse(Buffer.from(read(family, "reference.json")).toString()) as Reference;

  test.each(reference.texts)("encodes and decodes $text", ({ text, ids, decoded }) => {
    expect(tokenizer.encodeText(text)).toEqual(ids);
    expect(tokenizer.encodeTemplate(text)).toEqual(ids);
    expect(tokenizer.decode(ids)).toBe(decoded);
  });

  test("renders conversations and encodes them", () => {
    for (const { messages, tools, addGenerationPrompt, text, ids } of reference.conversations) {
      expect(tokenizer.render(messages, tools, addGenerationPrompt)).toBe(text);
      expect(tokenizer.encodeTemplate(text)).toEqual(ids);
    }
  });

  test("a turn ends with the template's token; generation also ends with those of generation_config.json", () => {
    expect(tokenizer.decode([tokenizer.endOfTurn])).toBe(end);
    expect(tokenizer.ends[0]).toBe(tokenizer.endOfTurn);
    expect([...tokenizer.ends].sort()).toEqual([...reference.ends].sort());
  });

  test("a conversation is laid out piece by piece as its template renders it (Mistral: spaces aside)", () => {
    const withoutSpaces = (text: string) => text.replaceAll(" ", "");
    expectLaidOutAsRendered(tokenizer, {}, family === "mistral" ? withoutSpaces : undefined);
  });
});

test("a tokenizer of another model is refused: its ids exceed the embedding, or an eos_token_id is not an added token", () => {
  const files = filesOf("qwen2.5");
  checkVocabulary(files, 339);
  expect(() => checkVocabulary(files, 338)).toThrow(
    /^tokenizer.json: token 338 \("<\|im_end\|>"\) is beyond the 338 rows of the embedding/,
  );
  const other = withFile(files, "generation_config.json", '{"eos_token_id": [338, 128009]}');
  expect(() => openTokenizer(other)).toThrow(/: generation_config\.json ends generation with token 128009 /);
  const older = withFile(withFile(files, "generation_config.json", undefined), "config.json", '{"eos_token_id": 7}');
  expect(() => openTokenizer(older)).toThrow(/: config\.json ends generation with token 7 /);
});

test("withoutLeadingSpace stops a tokenizer.json from prepending a space, and returns one that prepends none as it is", () => {
  const pretokenized = (prepend_scheme: string) => {
    const json = JSON.parse(Buffer.from(read("mistral", "tokenizer.json")).toString());
    const pre_tokenizer = { type: "Metaspace", replacement: "▁", prepend_scheme, split: false };
    const text = JSON.stringify({ ...json, normalizer: null, pre_tokenizer });
    return readTokenizerJson(withFile(filesOf("mistral"), "tokenizer.json", text));
  };
  const never = pretokenized("never");
  expect(withoutLeadingSpace(never)).toBe(never);
  expect(withoutLeadingSpace(pretokenized("always")).pre_tokenizer).toMatchObject({ prepend_scheme: "never" });
});
