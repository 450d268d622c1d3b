/** @file A model behind an API: what is sent, what is retried, and what each error says. */
import { inspect } from "node:util";
import { expect, test } from "vitest";
import { openLanguageModel } from "../../../adapters/llm/open.ts";
import { LanguageModelSpec } from "../../../core/contracts/language-model.ts";
import { isMgrpoError, type MgrpoError } from "../../../core/errors.ts";
import { fails, json, type OpenAiServer, type Reply, replyWith, serveOpenAi } from "../../fakes/openai-server.ts";

const KEY = "sk-a-secret-that-nobody-may-read";
const QUESTION = { messages: [{ role: "user", content: "?" }] } as const;

let server: OpenAiServer;

/** A model whose server gives these replies in order, and repeats the last one. */
async function openModel(
  replies: readonly [Reply, ...Reply[]],
  settings: { attempts?: number; timeoutSeconds?: number; keyVariable?: string } = {},
) {
  server = await serveOpenAi((_, n) => replies[Math.min(n, replies.length - 1)] ?? replies[0]);
  const spec = { provider: "openai" as const, baseUrl: server.url, model: "served", ...settings };
  return openLanguageModel(spec, { environment: { A_KEY: KEY, OPENAI_API_KEY: KEY }, pauseSeconds: 0.001 });
}

const failure = (promise: Promise<unknown>): Promise<MgrpoError> =>
  promise.then(
    () => expect.unreachable(),
    (error) => (isMgrpoError(error) ? error : expect.unreachable(String(error))),
  );

test("messages are sent with their roles, tool responses as user messages; the completion has the server's token counts", async () => {
  const model = await openModel([replyWith("Paris.")]);
  const completion = await model.complete({
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", content: "The capital of France?" },
      { role: "assistant", content: "Let me look." },
      { role: "tool", content: "Its capital is Paris." },
    ],
    temperature: 0,
    maxTokens: 9,
  });
  expect(completion).toEqual({ text: "Paris.", usage: { inputTokens: 20, outputTokens: 5 } });
  expect(server.requests[0]).toMatchObject({
    path: "/v1/chat/completions",
    body: {
      model: "served",
      temperature: 0,
      max_tokens: 9,
      messages: [
        { role: "system", content: "Be brief." },
        { role: "user", content: "The capital of France?" },
        { role: "assistant", content: "Let me look." },
        { role: "user", content: "<tool_response>\nIts capital is Paris.\n</tool_response>" },
      ],
    },
  });
});

test("a server gets only the key that its spec names: OPENAI_API_KEY is only for OpenAI", async () => {
  const model = await openModel([replyWith("yes")], { keyVariable: "A_KEY" });
  await model.complete(QUESTION);
  const without = openLanguageModel(`openai:${server.url}#served`, { environment: { OPENAI_API_KEY: KEY } });
  await without.complete(QUESTION);
  expect(server.requests.map(({ authorization }) => authorization)).toEqual([`Bearer ${KEY}`, undefined]);
});

test.each([
  [429, { "retry-after": "0" }],
  [500, {}],
  [503, {}],
] as const)("HTTP %d is retried", async (status, headers) => {
  const model = await openModel([fails(status, "busy", "busy", headers), replyWith("at last")]);
  expect((await model.complete(QUESTION)).text).toBe("at last");
  expect(server.requests).toHaveLength(2);
});

test.each<[string, Reply, RegExp]>([
  ["500", fails(500, "CUDA error"), /has failed \(HTTP 500: CUDA error\)/],
  ["a gateway's HTML", { status: 502, body: "<html>Bad Gateway</html>" }, /has failed \(HTTP 502: an HTML page\)/],
  ["a failure of the model", fails(424, "Request failed during generation"), /has failed \(HTTP 424: Request failed/],
  ["429", fails(429, "slow down"), /is rate limited \(HTTP 429: slow down\)/],
  ["a lost connection", "hang-up", /does not answer \(.+\): check that the server is running/],
  ["a truncated body", "truncated", /does not answer \(.+\): check that the server is running/],
  ["truncated JSON", { status: 200, body: '{"choices": [' }, /gave an answer that is cut off/],
  ["finish reason abort", replyWith("The cap", { finish: "abort" }), /broke off its answer \(finish reason 'abort'\)/],
  ["finish reason error", replyWith("", { finish: "error", usage: null }), /broke off its answer/],
  ["DeepSeek's finish reason", replyWith("The", { finish: "insufficient_system_resource" }), /broke off its answer/],
  [
    "a gateway's report of an upstream error, with status 200",
    json(200, { error: { code: 502, message: "upstream" }, choices: null }),
    /HTTP 502: upstream/,
  ],
])("%s on every attempt makes the endpoint unavailable", async (_, reply, message) => {
  const model = await openModel([reply], { attempts: 2 });
  const error = await failure(model.complete(QUESTION));
  expect(error).toMatchObject({ code: "endpoint-unavailable", retryable: true });
  expect(error.message).toMatch(/^model 'served' at http:.*; gave up after 2 attempts$/);
  expect(error.cause).toMatchObject({ message: expect.not.stringContaining("gave up"), code: "endpoint-unavailable" });
  expect(error.message).toMatch(message);
  expect(server.requests).toHaveLength(2);
});

test.each([
  [
    { prompt_tokens: 10.4, completion_tokens: 2.1 },
    { inputTokens: 11, outputTokens: 3 },
  ],
  [
    { prompt_tokens: 10, completion_tokens: -2 },
    { inputTokens: 10, outputTokens: 0 },
  ],
  [
    { prompt_tokens: 12, completion_tokens: 1, total_tokens: 399 },
    { inputTokens: 12, outputTokens: 387 },
  ],
])("token counts: fractions are rounded up, a negative one is 0, reasoning is output: %j", async (usage, counted) => {
  const model = await openModel([replyWith("yes", { usage })]);
  expect((await model.complete(QUESTION)).usage).toEqual(counted);
});

test("each attempt at a server that hangs times out, and its usage is reported as unknown", async () => {
  const model = await openModel(["hang"], { attempts: 2, timeoutSeconds: 0.5 });
  let unknownUsages = 0;
  const onUnknownUsage = () => {
    unknownUsages += 1;
  };
  const error = await failure(model.complete({ ...QUESTION, onUnknownUsage }));
  expect(error).toMatchObject({ code: "endpoint-unavailable", retryable: true });
  expect(error.message).toMatch(/took more than 0.5 s; gave up after 2 attempts/);
  expect(unknownUsages).toBe(2);
});

test.each<[string, Reply, number]>([
  [
    "finish reason abort",
    replyWith("The cap", { finish: "abort", usage: { prompt_tokens: 100, completion_tokens: 7 } }),
    1,
  ],
  ["a truncated body", "truncated", 1],
  ["truncated JSON", { status: 200, body: '{"choices": [' }, 1],
  ["HTTP 500", fails(500, "CUDA error"), 0],
  ["an upstream error, with status 200", json(200, { error: { code: 502, message: "upstream" } }), 0],
])("the usage of an interrupted answer counts as unknown, that of an error does not: %s", async (_, reply, count) => {
  const model = await openModel([reply, replyWith("at last")]);
  let unknownUsages = 0;
  const onUnknownUsage = () => {
    unknownUsages += 1;
  };
  const completion = await model.complete({ ...QUESTION, onUnknownUsage });
  expect(completion).toEqual({ text: "at last", usage: { inputTokens: 20, outputTokens: 5 } });
  expect(unknownUsages).toBe(count);
});

test("the usage of an attempt that its caller cuts off is reported as unknown, unless it was never sent", async () => {
  const model = await openModel(["hang"], { attempts: 2, timeoutSeconds: 60 });
  const reported: string[] = [];
  const ask = (when: string, signal: AbortSignal) =>
    failure(model.complete({ ...QUESTION, onUnknownUsage: () => void reported.push(when) }, signal));
  expect(await ask("before", AbortSignal.abort())).toMatchObject({ code: "canceled" });
  const stop = new AbortController();
  const during = ask("during", stop.signal);
  await expect.poll(() => server.requests).toHaveLength(1);
  stop.abort();
  expect(await during).toMatchObject({ code: "canceled" });
  expect(reported).toEqual(["during"]);
});

test("a long Retry-After is an error at once", async () => {
  const model = await openModel([fails(429, "daily limit", "rate", { "retry-after": "3600" })]);
  const error = await failure(model.complete(QUESTION));
  expect(error.message).toMatch(
    /HTTP 429: daily limit\); gave up after one attempt; the server asks for a pause of 3600 s/,
  );
});

test.each<[string, Reply, RegExp]>([
  ["401", fails(401, "bad key"), /refused the call: check the key in A_KEY \(HTTP 401: bad key\)/],
  ["402", fails(402, "no credits"), /requires payment: top up the account/],
  ["an exhausted quota", fails(429, "quota", "insufficient_quota"), /requires payment/],
  [
    "a gateway's report of an exhausted quota, with status 200",
    json(200, { error: { code: "insufficient_quota", message: "quota" } }),
    /requires payment/,
  ],
  ["404", fails(404, "no model"), /does not exist: check the model's name and the base URL/],
  ["400", fails(400, "temperature must be 1"), /refused the request \(HTTP 400: temperature must be 1\)/],
  ["FastAPI's error format", json(422, { detail: [{ msg: "field required" }] }), /HTTP 422: .*field required/],
  [
    "HTML instead of JSON",
    { status: 200, body: "<!DOCTYPE html><title>Sign in</title>" },
    /answers with HTML, not JSON: check the base URL/,
  ],
  ["JSON that is not a completion", json(200, { ok: true }), /not a chat completion/],
  [
    "JSON that is not a completion, and longer than its quotation",
    json(200, { text: "x".repeat(1000) }),
    /not a chat completion \(HTTP 200: .{300}…\)/,
  ],
  ["no choices", json(200, { choices: [], usage: { prompt_tokens: 1, completion_tokens: 0 } }), /gave no answer/],
  ["no token counts", replyWith("hello", { usage: null }), /reports no usable token counts/],
  ["a content filter", replyWith("", { finish: "content_filter" }), /withheld its answer/],
])("%s fails without a retry, with a message of one line", async (_, reply, message) => {
  const model = await openModel([reply], { keyVariable: "A_KEY" });
  const error = await failure(model.complete(QUESTION));
  expect(error).toMatchObject({ code: "endpoint-refused", retryable: false });
  expect(error.message).toMatch(message);
  expect(error.message).not.toContain("\n");
  expect(server.requests).toHaveLength(1);
});

test("the error for a 401 without a key says that none was sent", async () => {
  const model = await openModel([fails(401, "who are you?")]);
  expect((await failure(model.complete(QUESTION))).message).toMatch(
    /refused the call: no key was sent: set keyVariable to/,
  );
});

test("the caller's signal aborts a request, and the pause before a retry", async () => {
  const hanging = await openModel(["hang"]);
  const stop = new AbortController();
  const request = failure(hanging.complete(QUESTION, stop.signal));
  await expect.poll(() => server.requests).toHaveLength(1);
  stop.abort();
  expect((await request).code).toBe("canceled");
  await server.close();

  const limited = await openModel([fails(429, "later", "rate", { "retry-after": "50" })]);
  const impatient = new AbortController();
  const pause = failure(limited.complete(QUESTION, impatient.signal));
  await expect.poll(() => server.requests).toHaveLength(1);
  // By then the response has arrived. The pause would outlast this test.
  setTimeout(() => impatient.abort(), 100);
  expect((await pause).code).toBe("canceled");
}, 40_000);

test("a short spec is parsed to the full one, and parsing is idempotent", () => {
  const parsed = LanguageModelSpec.parse("openai:http://10.0.0.7:8000/v1#Qwen/Qwen3-8B");
  expect(parsed).toMatchObject({ provider: "openai", baseUrl: "http://10.0.0.7:8000/v1", model: "Qwen/Qwen3-8B" });
  expect(LanguageModelSpec.parse(parsed)).toEqual(parsed);
  expect(LanguageModelSpec.parse("openai#gpt-5-mini")).toMatchObject({ baseUrl: "https://api.openai.com/v1" });
  expect(LanguageModelSpec.parse("bedrock:eu-central-1#amazon.nova-pro-v1:0")).toMatchObject({
    provider: "bedrock",
    region: "eu-central-1",
    model: "amazon.nova-pro-v1:0",
  });
});

test.each([
  ["gpt-5", /write openai:<base url>#<model>/],
  ["openai:ftp://host#m", /the server's base URL/],
  ["openai:http://user:word@host/v1#m", /without user/],
  ["bedrock:mars#m", /an AWS region/],
  ["openai#m", /OPENAI_API_KEY holds no key: set it/],
  ["bedrock#m", /no region is given/],
  [{ provider: "openai", model: "m", keyVariable: KEY }, /the name of an environment variable that holds the key/],
] as const)("%j is refused before any request, with a message that does not contain the key", (spec, message) => {
  let error: unknown;
  try {
    openLanguageModel(spec, { environment: {} });
  } catch (thrown) {
    error = thrown;
  }
  expect(error).toMatchObject({ code: "config-invalid", message: expect.stringMatching(message) });
  expect(inspect(error, { depth: null })).not.toContain(KEY);
});

test("Bedrock is called through its Converse API, with a bearer token, and its errors read like those of other servers", async () => {
  server = await serveOpenAi((_, n) =>
    n === 0
      ? json(200, {
          output: { message: { role: "assistant", content: [{ text: "Lisbon." }] } },
          stopReason: "end_turn",
          usage: { inputTokens: 12, outputTokens: 3, totalTokens: 15 },
          metrics: { latencyMs: 1 },
        })
      : json(403, { message: `The key ${KEY} may not use this model` }),
  );
  process.env["AWS_ENDPOINT_URL_BEDROCK_RUNTIME"] = new URL(server.url).origin;
  try {
    const model = openLanguageModel("bedrock:eu-central-1#amazon.nova-pro-v1:0", {
      environment: { AWS_BEARER_TOKEN_BEDROCK: KEY },
    });
    expect(await model.complete(QUESTION)).toEqual({ text: "Lisbon.", usage: { inputTokens: 12, outputTokens: 3 } });
    expect(server.requests[0]).toMatchObject({
      path: "/model/amazon.nova-pro-v1%3A0/converse",
      authorization: `Bearer ${KEY}`,
    });
    const error = await failure(model.complete(QUESTION));
    expect(error.code).toBe("endpoint-refused");
    expect(error.message).toMatch(
      /Amazon Bedrock in eu-central-1 refused the call: check the key in AWS_BEARER_TOKEN_BEDROCK/,
    );
    expect(inspect(error, { depth: null })).not.toContain(KEY);
  } finally {
    delete process.env["AWS_ENDPOINT_URL_BEDROCK_RUNTIME"];
  }
});
