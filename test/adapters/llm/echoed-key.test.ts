/** @file A server that repeats the key of its call: neither an error nor an answer contains it. */
import { inspect } from "node:util";
import { expect, test } from "vitest";
import { openConversationModel } from "../../../adapters/llm/converse.ts";
import { openLanguageModel } from "../../../adapters/llm/open.ts";
import type { ChatRequest } from "../../../core/language-model-ports.ts";
import { fails, json, type Reply, replyWith, serveOpenAi } from "../../fakes/openai-server.ts";

/** JSON escapes the slash in PHP, URLs escape both. */
const KEY = "sk-a-secret/that+nobody-may-read";
const MESSAGES = [{ role: "user", content: "?" }] as const;

async function open(reply: Reply, key = KEY) {
  const { url: baseUrl } = await serveOpenAi(() => reply);
  const spec = { provider: "openai", baseUrl, model: "served", keyVariable: "A_KEY", attempts: 1 } as const;
  const options = { environment: { A_KEY: key } };
  return { single: openLanguageModel(spec, options), conversation: openConversationModel(spec, options) };
}

test.each<[string, Reply]>([
  ["a refusal", fails(401, `Incorrect API key provided: ${KEY}`)],
  ["a page", { status: 500, body: `<p>${KEY}</p>` }],
  ["a refusal that gives the key as part of a URL", fails(400, `no such path: /v1?key=${encodeURIComponent(KEY)}`)],
  ["a response without an answer", json(200, { echo: KEY })],
])("%s: the error does not contain the key", async (_, reply) => {
  const { single } = await open(reply);
  const error: unknown = await single.complete({ messages: MESSAGES }).then(
    (completion) => expect.fail(completion.text),
    (fault) => fault,
  );
  const text = inspect(error, { depth: null, showHidden: true });
  expect(text).not.toContain(KEY);
  expect(text).not.toContain(encodeURIComponent(KEY));
});

test("*** replaces the key in the text, the reasoning and the calls of an answer", async () => {
  const calls = [{ name: "read", arguments: JSON.stringify({ url: `https://a.test/${KEY}` }) }];
  const { single, conversation } = await open(
    replyWith(`You sent Bearer ${KEY}.`, { calls, reasoning: `The key is ${KEY}.`, finish: "stop" }),
  );
  expect((await single.complete({ messages: MESSAGES })).text).toBe("You sent Bearer ***.");
  const request: ChatRequest = {
    conversation: [{ kind: "message", role: "user", text: "?" }],
    tools: [],
    sampling: { temperature: 1, topP: 1, topK: 0 },
    maxTokens: 9,
  };
  const turn = await conversation.generate(request, new AbortController().signal);
  expect(turn).toMatchObject({ text: "You sent Bearer ***.", thinking: "The key is ***." });
  expect(turn.calls).toMatchObject([{ name: "read", arguments: '{"url":"https://a.test/***"}' }]);
});

test("a placeholder of fewer than 8 characters for a server without keys stays in ordinary text", async () => {
  const { single } = await open(replyWith("The cell is EMPTY."), "EMPTY");
  expect((await single.complete({ messages: MESSAGES })).text).toBe("The cell is EMPTY.");
});

test("an answer is read however deeply the rest of its response is nested: only the answer is searched for the key", async () => {
  const rest = `{"trace": ${"[".repeat(20_000)}${"]".repeat(20_000)},`;
  const { status, body } = replyWith("Fine.") as Exclude<Reply, string>;
  const { single } = await open({ status, body: String(body).replace("{", rest) });
  expect((await single.complete({ messages: MESSAGES })).text).toBe("Fine.");
});
