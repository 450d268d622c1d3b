/** @file Structured output of a model behind an API: how it is requested, how its JSON is found in an answer, and what an error suggests. */
import { expect, test } from "vitest";
import * as z from "zod";
import { openLanguageModel } from "../../../adapters/llm/open.ts";
import { type OpenAiServer, type Reply, replyWith, serveOpenAi } from "../../fakes/openai-server.ts";

const QUESTION = { messages: [{ role: "user", content: "?" }] } as const;

let server: OpenAiServer;

async function openModel(reply: Reply, json: "schema" | "object" | "text" = "schema") {
  server = await serveOpenAi(() => reply);
  return openLanguageModel({ provider: "openai", baseUrl: server.url, model: "served", json }, { environment: {} });
}

const Verdict = z.strictObject({ correct: z.boolean() });

test.each([
  ["schema", { type: "json_schema" }, 0],
  ["object", { type: "json_object" }, 1],
  ["text", undefined, 1],
] as const)("structured output is requested as %s", async (mode, format, instructions) => {
  const model = await openModel(replyWith('<think>hm, {"correct": 1}?</think>\n```json\n{"correct": true}\n```'), mode);
  const { text } = await model.complete({ ...QUESTION, schema: Verdict });
  expect(Verdict.parse(JSON.parse(text))).toEqual({ correct: true });
  const { response_format, messages } = server.requests[0]?.body ?? expect.unreachable();
  if (format) expect(response_format).toMatchObject(format);
  else expect(response_format).toBeUndefined();
  expect(messages.filter(({ content }) => content?.includes('"correct"'))).toHaveLength(instructions);
});

test.each([
  '{"reason": "it writes </think>", "correct": true}',
  '```json\n{"reason": "it writes </think>", "correct": true}\n```',
  '<think>is </think> in it?</think>{"reason": "it writes </think>", "correct": true}',
])("structured output may contain the marker that ends thinking: %s", async (answer) => {
  const model = await openModel(replyWith(answer));
  const schema = Verdict.extend({ reason: z.string() });
  const { text } = await model.complete({ ...QUESTION, schema });
  expect(JSON.parse(text)).toEqual({ reason: "it writes </think>", correct: true });
});

test.each([
  ["schema", /: if the server does not support schemas, set json to "object" or "text"$/],
  ["object", /: if the server does not support JSON output, set json to "text"$/],
  ["text", /\(not JSON\)$/],
] as const)(
  "if output requested as %s is not JSON, the message suggests the weaker modes, if any",
  async (mode, message) => {
    const model = await openModel(replyWith("I think so."), mode);
    await expect(model.complete({ ...QUESTION, schema: Verdict })).rejects.toThrow(message);
  },
);

test.each([
  [replyWith("I think so."), /not match the schema \(not JSON\)/],
  [replyWith('{"correct": "yes"}'), /not match the schema \(correct: .*boolean/],
  [replyWith('{"corr', { finish: "length" }), /truncated after 5 tokens: raise maxTokens, or shorten the prompt/],
])("an answer that does not match the schema is refused with the reason", async (reply, message) => {
  const model = await openModel(reply);
  const error: unknown = await model.complete({ ...QUESTION, schema: Verdict }).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: "endpoint-refused", message: expect.stringMatching(message) });
});
