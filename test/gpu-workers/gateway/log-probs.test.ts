/** @file The log-probs of a reply: a token's bytes are those that were sampled, or unknown. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { TurnReply } from "../../../core/contracts/app-chat.ts";
import { openTokenizer } from "../../../engine/tokenizer/tokenizer.ts";
import { chatCompletions } from "../../../gpu-workers/gateway/api/chat-reply.ts";
import { responses } from "../../../gpu-workers/gateway/api/responses-reply.ts";
import { tokenTexts } from "../../../gpu-workers/gateway/sample-turn.ts";

/** The first character takes two tokens, each of which decodes to U+FFFD; the second is one token of two bytes. */
const REPLY: TurnReply = {
  exchange: "e",
  text: "\u{1F600}\u00E9",
  thinking: "",
  calls: [],
  stopReason: "stop",
  usage: { inputTokens: 1, outputTokens: 3 },
  tokens: [
    { text: "\uFFFD", logProb: -1 },
    { text: "\uFFFD", logProb: -2 },
    { text: "\u00E9", logProb: -3 },
  ],
};

test("chat completions: the bytes of a token that is part of a character are null", () => {
  const messages = [{ role: "user", content: "Say it." }];
  const request = chatCompletions.read(JSON.stringify({ model: "main", messages, logprobs: true }));
  expect(chatCompletions.reply(REPLY, request)).toMatchObject({
    choices: [{ logprobs: { content: [{ bytes: null }, { bytes: null }, { bytes: [0xc3, 0xa9] }] } }],
  });
});

test("responses: the bytes of a token that is part of a character are an empty list", () => {
  const include = ["message.output_text.logprobs"];
  const request = responses.read(JSON.stringify({ model: "main", input: "Say it.", include }));
  expect(responses.reply(REPLY, request)).toMatchObject({
    output: [{ content: [{ logprobs: [{ bytes: [] }, { bytes: [] }, { bytes: [0xc3, 0xa9] }] }] }],
  });
});

test.each(["mistral", "qwen2.5", "llama3"])("%s: the texts of a reply's tokens make up its text", (family) => {
  const folder = join(import.meta.dirname, "../../fixtures/tokenizers", family);
  const names = ["tokenizer.json", "tokenizer_config.json", "generation_config.json"];
  const tokenizer = openTokenizer(new Map(names.map((name) => [name, readFileSync(join(folder, name))])));
  const tokens = tokenizer.encodeText("The capital of France, it is said: Paris.");
  expect(tokenTexts(tokens, tokenizer).join("")).toBe(tokenizer.decode(tokens));
  // This character has no token of its own: each token after the first is some of its bytes, or the space before it.
  const [first, ...parts] = tokenTexts(tokenizer.encodeText("a \u{1F600}"), tokenizer);
  expect(first).toBe("a");
  expect(parts.filter((part) => part !== " " && !part.includes("\uFFFD"))).toEqual([]);
});
