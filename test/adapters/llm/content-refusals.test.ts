/** @file A prompt that a server refuses as too long, or filters, and an answer that it withholds end one conversation; a refused tool is an error. */
import { expect, test } from "vitest";
import { openConversationModel } from "../../../adapters/llm/converse.ts";
import { fails, json, type Reply, replyWith, serveOpenAi } from "../../fakes/openai-server.ts";

/** The turn of an agent whose server gives this reply. */
async function turnAfter(reply: Reply, onUnknownUsage = () => {}) {
  const server = await serveOpenAi(() => reply);
  const model = openConversationModel(`openai:${server.url}#served`);
  const conversation = [{ kind: "message" as const, role: "user" as const, text: "?" }];
  const sampling = { temperature: 1, topP: 1, topK: 0 };
  return model.generate(
    { conversation, tools: [], sampling, maxTokens: 9, onUnknownUsage },
    new AbortController().signal,
  );
}

test.each([
  fails(400, "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000"),
  json(422, { error: "Input validation error: `inputs` must have less than 1024 tokens. Given: 1500" }),
  json(422, { error: "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 1800" }),
  fails(400, "Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)"),
  fails(400, "Prompt exceeds max length", "1261"),
  fails(400, "the input token count is 1251952 but model only supports up to 1048576. Reduce the input token count."),
  fails(
    429,
    "Request too large for gpt-4o in organization org-1 on tokens per min (TPM): Limit 30000, Requested 61337. The input or output tokens must be reduced",
    "rate_limit_exceeded",
  ),
])(
  "a prompt too long for Anthropic, text-generation-inference, Kimi, GLM, Vertex AI or an account at OpenAI ends the conversation as cut off",
  async (reply) => {
    expect(await turnAfter(reply)).toMatchObject({ text: "", calls: [], stop: "length" });
  },
);

test("HTTP 429 for too many tokens is a rate limit and is retried: the prompt does not count as too long", async () => {
  const replies = [fails(429, "Too many tokens, please wait before trying again."), replyWith("Paris")];
  const server = await serveOpenAi((_, n) => replies[n] ?? replyWith("again"));
  const model = openConversationModel(`openai:${server.url}#served`, { pauseSeconds: 0.001 });
  const conversation = [{ kind: "message" as const, role: "user" as const, text: "?" }];
  const request = { conversation, tools: [], sampling: { temperature: 1, topP: 1, topK: 0 }, maxTokens: 9 };
  expect(await model.generate(request, new AbortController().signal)).toMatchObject({ text: "Paris" });
});

test.each([
  fails(400, "Invalid prompt: your prompt was flagged as potentially violating our usage policy.", "invalid_prompt"),
  fails(400, "Content Exists Risk", "invalid_request_error"),
  fails(400, "Input data may contain inappropriate content.", "data_inspection_failed"),
  json(403, { code: "permission-denied", error: "Content violates usage guidelines. Team: t, Model: grok-4" }),
  replyWith("withheld", { finish: "sensitive" }),
])(
  "a prompt that OpenAI, DeepSeek, Qwen or xAI filters, or an answer that GLM filters, ends the conversation without an answer",
  async (reply) => {
    expect(await turnAfter(reply)).toMatchObject({ text: "", calls: [], stop: "stop" });
  },
);

test.each([
  [{ prompt_tokens: 20, completion_tokens: 5 }, { inputTokens: 20, outputTokens: 5 }, 0],
  [null, { inputTokens: 0, outputTokens: 0 }, 1],
])(
  "a withheld answer is charged by its usage, which counts as unknown if the server reports none: usage %j",
  async (usage, counted, count) => {
    let unknownUsages = 0;
    const onUnknownUsage = () => {
      unknownUsages += 1;
    };
    expect(await turnAfter(replyWith("", { finish: "content_filter", usage }), onUnknownUsage)).toMatchObject({
      usage: counted,
    });
    expect(unknownUsages).toBe(count);
  },
);

test.each<[string, object, object, number]>([
  [
    "no choice",
    { choices: [], usage: { prompt_tokens: 20, completion_tokens: 3 } },
    { inputTokens: 20, outputTokens: 3 },
    0,
  ],
  ["null choices", { choices: null, usage: { prompt_tokens: 20 } }, { inputTokens: 20, outputTokens: 0 }, 0],
  ["a choice alone", { choices: [{ index: 0 }], usage: null }, { inputTokens: 0, outputTokens: 0 }, 1],
  ["no message", { choices: [{ index: 0, message: null }], usage: null }, { inputTokens: 0, outputTokens: 0 }, 1],
])(
  "a completion without an answer ends the conversation, and is charged like a withheld one: %s",
  async (_, body, usage, count) => {
    let unknownUsages = 0;
    const onUnknownUsage = () => {
      unknownUsages += 1;
    };
    expect(await turnAfter(json(200, body), onUnknownUsage)).toMatchObject({
      text: "",
      calls: [],
      stop: "stop",
      usage,
    });
    expect(unknownUsages).toBe(count);
  },
);

const UNFINISHED = "Could not finish the message because max_tokens or model output limit was reached.";

test.each<[string, Reply, string]>([
  ["unfinished, at OpenAI", fails(400, UNFINISHED, "invalid_request_error"), "length"],
  [
    "unfinished, behind OpenRouter",
    json(400, { error: { message: "Provider returned error", code: 400, metadata: { raw: UNFINISHED } } }),
    "length",
  ],
  [
    "unfinished, behind OpenRouter, with status 200",
    json(200, { error: { message: "Provider returned error", code: 400, metadata: { raw: UNFINISHED } } }),
    "length",
  ],
  [
    "a malformed call, at Groq",
    fails(400, "Failed to call a function. Please adjust your prompt.", "tool_use_failed"),
    "stop",
  ],
  ["malformed JSON, at Groq", fails(400, "Failed to generate JSON.", "json_validate_failed"), "stop"],
])("an answer that the server withholds ends the conversation, and its cost is unknown: %s", async (_, reply, stop) => {
  let unknownUsages = 0;
  const onUnknownUsage = () => {
    unknownUsages += 1;
  };
  expect(await turnAfter(reply, onUnknownUsage)).toMatchObject({ text: "", calls: [], stop });
  expect(unknownUsages).toBe(1);
});

test("a prompt too long for a provider behind OpenRouter, or flagged by OpenRouter itself, ends the conversation too", async () => {
  const raw = JSON.stringify({ type: "error", error: { message: "prompt is too long: 214000 > 200000" } });
  const tooLong = { message: "Provider returned error", code: 400, metadata: { raw, provider_name: "Anthropic" } };
  expect(await turnAfter(json(400, { error: tooLong }))).toMatchObject({ text: "", calls: [], stop: "length" });

  const message = `a/model requires moderation on OpenRouter. Your input was flagged for "violence".`;
  const flagged = { message, code: 403, metadata: { reasons: ["violence"], flagged_input: "?" } };
  expect(await turnAfter(json(403, { error: flagged }))).toMatchObject({ text: "", calls: [], stop: "stop" });
});

test.each([
  "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64",
  "Invalid 'tools[0].function.description': string too long. Expected a string with maximum length 1024",
  "Invalid 'tools': array too long. Expected an array with maximum length 128",
])("a tool or a list of tools that is too long is an error, not the end of a conversation: %s", async (message) => {
  await expect(turnAfter(fails(400, message, "invalid_request_error"))).rejects.toMatchObject({
    code: "endpoint-refused",
    retryable: false,
    message: expect.stringContaining(message),
  });
});
