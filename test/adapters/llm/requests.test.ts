/** @file Servers that deviate: what they refuse in a request, and their words for an outage and an empty account. */
import { expect, test } from "vitest";
import { openLanguageModel } from "../../../adapters/llm/open.ts";
import { type ChatRequest, fails, says, serveOpenAi } from "../../fakes/openai-server.ts";

test("an unpaired surrogate, which strict servers refuse, is sent as U+FFFD", async () => {
  const server = await serveOpenAi(() => says("yes"));
  const content = "cut \ud83d off, \u{1f600} whole, \\ud83d spelled";
  await openLanguageModel(`openai:${server.url}#served`).complete({ messages: [{ role: "user", content }] });
  expect(server.requests[0]?.body.messages[0]?.content).toBe("cut \ufffd off, \u{1f600} whole, \\ud83d spelled");
});

test("a server that asks for max_completion_tokens gets it, from concurrent requests too, and from then on at once", async () => {
  const refusal = `Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.`;
  const isRefused = ({ body }: ChatRequest) => body.max_tokens !== undefined;
  const server = await serveOpenAi((request) =>
    isRefused(request) ? fails(400, refusal, "unsupported_parameter") : says("yes"),
  );
  const model = openLanguageModel(`openai:${server.url}#served`);
  const ask = () => model.complete({ messages: [{ role: "user", content: "?" }], maxTokens: 9 });
  for (const { text } of await Promise.all([ask(), ask(), ask()])) expect(text).toBe("yes");
  const before = server.requests.length;
  await ask();
  expect(server.requests.slice(before).map(({ body }) => body.max_completion_tokens)).toEqual([9]);
});

test.each([
  ["GLM's outage", says("The", { finish: "network_error" }), "endpoint-unavailable", /broke off its answer/],
  ["Kimi's empty account", fails(403, "", "exceeded_current_quota_error"), "endpoint-refused", /requires payment/],
] as const)("%s", async (_, reply, code, message) => {
  const server = await serveOpenAi(() => reply);
  const spec = { provider: "openai" as const, baseUrl: server.url, model: "served", attempts: 1 };
  const asked = openLanguageModel(spec).complete({ messages: [{ role: "user", content: "?" }] });
  await expect(asked).rejects.toMatchObject({ code, message: expect.stringMatching(message) });
});
