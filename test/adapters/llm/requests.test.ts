/** @file Servers that deviate from OpenAI's API: what they refuse in a request, and how they write answers, token counts and errors. */
import { expect, test } from "vitest";
import { openConversationModel } from "../../../adapters/llm/converse.ts";
import { openLanguageModel } from "../../../adapters/llm/open.ts";
import { type ChatRequest, fails, json, type Reply, replyWith, serveOpenAi } from "../../fakes/openai-server.ts";

/** The turn of an agent whose server gives this reply, or the error that it ends with, and the number of calls of `onUnknownUsage`. */
async function turnAfter(reply: Reply) {
  const server = await serveOpenAi(() => reply);
  const model = openConversationModel(`openai:${server.url}#served`);
  const conversation = [{ kind: "message" as const, role: "user" as const, text: "?" }];
  const sampling = { temperature: 1, topP: 1, topK: 0 };
  let unknown = 0;
  const onUnknownUsage = () => {
    unknown += 1;
  };
  const request = { conversation, tools: [], sampling, maxTokens: 9, onUnknownUsage };
  const turn = await model.generate(request, new AbortController().signal).catch((error: unknown) => error);
  return { turn, unknown };
}

test("an unpaired surrogate, which strict servers refuse, is sent as U+FFFD", async () => {
  const server = await serveOpenAi(() => replyWith("yes"));
  const content = "cut \ud83d off, \u{1f600} whole, \\ud83d spelled";
  await openLanguageModel(`openai:${server.url}#served`).complete({ messages: [{ role: "user", content }] });
  expect(server.requests[0]?.body.messages[0]?.content).toBe("cut \ufffd off, \u{1f600} whole, \\ud83d spelled");
});

test("a server that asks for max_completion_tokens gets it, from concurrent requests too, and from then on at once", async () => {
  const refusal = `Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.`;
  const isRefused = ({ body }: ChatRequest) => body.max_tokens !== undefined;
  const server = await serveOpenAi((request) =>
    isRefused(request) ? fails(400, refusal, "unsupported_parameter") : replyWith("yes"),
  );
  const model = openLanguageModel(`openai:${server.url}#served`);
  const ask = () => model.complete({ messages: [{ role: "user", content: "?" }], maxTokens: 9 });
  for (const { text } of await Promise.all([ask(), ask(), ask()])) expect(text).toBe("yes");
  const before = server.requests.length;
  await ask();
  expect(server.requests.slice(before).map(({ body }) => body.max_completion_tokens)).toEqual([9]);
});

test.each([
  ["GLM's outage", replyWith("The", { finish: "network_error" }), "endpoint-unavailable", /broke off its answer/],
  ["Kimi's empty account", fails(403, "", "exceeded_current_quota_error"), "endpoint-refused", /requires payment/],
] as const)("%s is recognized by the server's own word for it", async (_, reply, code, message) => {
  const server = await serveOpenAi(() => reply);
  const spec = { provider: "openai" as const, baseUrl: server.url, model: "served", attempts: 1 };
  const asked = openLanguageModel(spec).complete({ messages: [{ role: "user", content: "?" }] });
  await expect(asked).rejects.toMatchObject({ code, message: expect.stringMatching(message) });
});

test.each([408, 409, 424, 425])("HTTP %d, by which some servers ask for a retry, is retried", async (status) => {
  const server = await serveOpenAi((_, n) => (n === 0 ? fails(status, "again") : replyWith("at last")));
  const model = openLanguageModel(`openai:${server.url}#served`, { pauseSeconds: 0.001 });
  const { text } = await model.complete({ messages: [{ role: "user", content: "?" }] });
  expect([text, server.requests.length]).toEqual(["at last", 2]);
});

test.each([
  ["seconds", () => ({ "retry-after": "3600" })],
  ["a date", () => ({ "retry-after": new Date(Date.now() + 3_600_000).toUTCString() })],
  ["milliseconds, in a header of their own", () => ({ "retry-after-ms": "3600000" })],
])("the pause that a server asks for may be given as %s", async (_, headers) => {
  const server = await serveOpenAi(() => fails(429, "later", "rate", headers()));
  const asked = openLanguageModel(`openai:${server.url}#served`).complete({
    messages: [{ role: "user", content: "?" }],
  });
  await expect(asked).rejects.toThrow(/gave up after one attempt; the server asks for a pause of 3[56]\d\d s$/);
});

/** A completion with these fields in place of OpenAI's. */
function completion(message: object, fields: object = {}): Reply {
  const usage = { prompt_tokens: 20, completion_tokens: 5 };
  return json(200, {
    choices: [{ message: { role: "assistant", ...message }, finish_reason: "stop" }],
    usage,
    ...fields,
  });
}

test.each<[string, object, string]>([
  [
    "an object, as text-generation-inference sends them",
    { name: "search", arguments: { query: "a" } },
    '{"query":"a"}',
  ],
  ["null", { name: "now", arguments: null }, "{}"],
  ["left out", { name: "now" }, "{}"],
  ["JSON in a string, as OpenAI sends them", { name: "search", arguments: '{"query": "a"}' }, '{"query": "a"}'],
])("the arguments of a tool call may be %s", async (_, call, written) => {
  const { turn } = await turnAfter(completion({ content: null, tool_calls: [{ id: "1", function: call }] }));
  expect(turn).toMatchObject({ calls: [{ id: "1", arguments: written }], usage: { inputTokens: 20, outputTokens: 5 } });
});

test.each(["model_context_window_exceeded", "max_tokens", "MAX_TOKENS"])(
  "an answer with the finish reason %s counts as cut off",
  async (finish) => {
    expect((await turnAfter(replyWith("The capital is", { finish }))).turn).toMatchObject({ stop: "length" });
  },
);

test.each([
  {},
  { prompt_tokens: null, completion_tokens: null },
  { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
])("the cost of an answer whose token counts are missing or 0 is unknown: usage %j", async (usage) => {
  const { turn, unknown } = await turnAfter(completion({ content: "Paris" }, { usage }));
  expect(turn).toMatchObject({ text: "Paris", usage: { inputTokens: 0, outputTokens: 0 } });
  expect(unknown).toBe(1);
});

test("an answer that is not a chat completion is refused, and its cost is unknown", async () => {
  const { turn, unknown } = await turnAfter(completion({ content: "Paris" }, { id: 7 }));
  expect(turn).toMatchObject({ code: "endpoint-refused", message: expect.stringContaining("not a chat completion") });
  expect(unknown).toBe(1);
});
