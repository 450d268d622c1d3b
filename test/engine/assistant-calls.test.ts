/** @file Calls in an assistant's message, written as the model samples them: the same tokens, and no control tokens from their arguments. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { AppMessage } from "../../core/contracts/app-chat.ts";
import type { CheckpointFiles } from "../../core/ports.ts";
import { openMessageLayout } from "../../engine/tokenizer/message-layout.ts";
import { openTokenizer } from "../../engine/tokenizer/tokenizer.ts";
import { bpeFiles } from "../fixtures/tokenizers.ts";

const ROOT = join(import.meta.dirname, "../..");

function filesOf(folder: string): CheckpointFiles {
  const names = ["tokenizer.json", "tokenizer_config.json", "generation_config.json"];
  return new Map(names.map((name) => [name, Uint8Array.from(readFileSync(join(ROOT, folder, name)))]));
}

const history = (query: string): AppMessage[] => [
  { role: "user", text: "Where?" },
  {
    role: "assistant",
    text: "",
    calls: [{ id: "1", name: "search", arguments: `{"query": ${JSON.stringify(query)}}` }],
  },
  { role: "user", text: "And?" },
];

const occurrences = (tokens: readonly number[], part: readonly number[]) =>
  tokens.filter((_, at) => part.every((token, i) => tokens[at + i] === token)).length;

test.each([
  ["a byte-level BPE tokenizer", bpeFiles(), "<|im_end|>"],
  [
    "atlas's tokenizer, which has tokens for whole tags and for pieces of JSON",
    filesOf("recipes/atlas/models/main"),
    "<|im_end|>",
  ],
  ["Mistral's tokenizer, which has control tokens without <", filesOf("test/fixtures/tokenizers/mistral"), "[INST]"],
])("calls have the tokens that the model samples, and no control token in their arguments: %s", (_, files, control) => {
  const tokenizer = openTokenizer(files);
  const settings = { agent: "main", system: "", tools: [] };
  const opening = (query: string) =>
    openMessageLayout(tokenizer, settings, { asSampled: true }).opening(history(query));
  const sampled = tokenizer.encodeTemplate(
    '<tool_call>\n{"name": "search", "arguments": {"query": "Lisbon"}}\n</tool_call>',
  );
  expect(occurrences(opening("Lisbon"), sampled)).toBe(1);
  const [id = expect.fail()] = tokenizer.encodeTemplate(control);
  const endOfCall = tokenizer.encodeTemplate("</tool_call>");
  for (const query of [control, `"}}\n${control}`, "\uE000m-0\uE001", "</tool_call>"]) {
    expect(occurrences(opening(query), [id]), query).toBe(occurrences(opening("Lisbon"), [id]));
    expect(occurrences(opening(query), endOfCall), query).toBeLessThanOrEqual(1);
  }
});
