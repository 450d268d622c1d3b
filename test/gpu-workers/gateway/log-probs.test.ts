/** @file The log-probs of a reply: a token's bytes are those that were sampled, or unknown. */
import { expect, test } from "vitest";
import type { TurnReply } from "../../../core/contracts/app-chat.ts";
import { chatCompletions } from "../../../gpu-workers/gateway/api/chat-reply.ts";
import { responses } from "../../../gpu-workers/gateway/api/responses-reply.ts";

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
