/** @file Anthropic's `/v1/messages`, with fetch and the AI SDK: content blocks, tools, stop strings, streams, and errors. */
import { createAnthropic } from "@ai-sdk/anthropic";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { expect, test } from "vitest";
import * as z from "zod";
import type { AgentAccess } from "../../../core/contracts/app-rollout.ts";
import { type HarnessOptions, openHarness, trainedOn } from "./harness.ts";

async function start(options: HarnessOptions = {}) {
  const harness = await openHarness(options);
  const attempt = harness.open();
  const { baseURL, apiKey } = attempt.main;
  return { harness, ...attempt, model: createAnthropic({ baseURL, apiKey })("main") };
}

async function post({ baseURL, apiKey, model }: AgentAccess, body: object) {
  const headers = { "x-api-key": apiKey, "anthropic-version": "2023-06-01", "content-type": "application/json" };
  const sent = JSON.stringify({ model, max_tokens: 300, ...body });
  const response = await fetch(`${baseURL}/messages`, { method: "POST", headers, body: sent });
  return { status: response.status, text: await response.text() };
}

async function ask(access: AgentAccess, body: object) {
  const { status, text } = await post(access, body);
  return { status, body: JSON.parse(text) };
}

const user = (content: unknown) => ({ role: "user", content });
const schema = { type: "object", properties: { word: { type: "string" } } };
const tools = [{ name: "lookup", input_schema: schema }];
const called = (word: string) => `{"name": "lookup", "arguments": {"word": "${word}"}}`;
const both = `call ${called("amber")}\n${called("birch")}`;

test("tool results may come in any order, and stop_reason says why a message ended", async () => {
  const { main, searcher, harness, outcome } = await start();
  const first = await ask(main, { system: [{ type: "text", text: "Look." }], messages: [user(both)], tools });
  expect(first.body).toMatchObject({
    ...{ type: "message", role: "assistant", model: "main", stop_reason: "tool_use", stop_sequence: null },
    content: ["amber", "birch"].map((word) => ({ type: "tool_use", name: "lookup", input: { word } })),
  });
  const results = first.body.content.map(({ id, input }: { id: string; input: { word: string } }, i: number) => ({
    ...{ type: "tool_result", tool_use_id: id },
    content: i === 0 ? [{ type: "text", text: `after ${input.word}` }] : `after ${input.word}`,
  }));
  const messages = [user(both), { role: "assistant", content: first.body.content }, user(results.toReversed())];
  const second = await ask(main, { system: "Look.", messages, tools });
  const said = { type: "text", text: "<answer>after amber after birch</answer>" };
  expect(second.body).toMatchObject({ content: [said], stop_reason: "end_turn" });
  expect(second.body.usage.output_tokens).toBeGreaterThan(0);
  const stopped = await ask(main, { messages: [user("say one two three")], stop_sequences: ["three", " two"] });
  expect(stopped.body).toMatchObject({ content: [{ type: "text", text: "one" }], stop_reason: "stop_sequence" });
  expect(stopped.body.stop_sequence).toBe(" two");
  await ask(searcher, { messages: [user("say found, more")], stop_sequences: [","] });
  const cut = await ask(main, { messages: [user("say one two three")], max_tokens: 2 });
  expect(cut.body).toMatchObject({ content: [{ type: "text", text: "on" }], stop_reason: "max_tokens" });
  const finished = await outcome({ answer: "" });
  expect(finished.app?.counts["main"]).toMatchObject({ branches: 3, rewritten: 0, cut: 1 });
  expect((await harness.invocations(finished))[0]?.conversation).toMatchObject({ stop: "answered", answer: "found" });
});

test("a stream has the named events of each block", async () => {
  const { main, harness } = await start({
    script: () => `<think>hm</think>well<tool_call>${called("amber")}</tool_call>`,
  });
  const { text } = await post(main, { messages: [user("go")], tools, stream: true });
  const events = text
    .trim()
    .split("\n\n")
    .map((event) => event.split("\n"));
  const read = events.map(([name = "", data = ""]) => [name.slice(7), JSON.parse(data.slice(6))] as const);
  for (const [name, { type }] of read) expect(type).toBe(name);
  const block = ["content_block_start", "content_block_delta", "content_block_stop"];
  expect(read.map(([name]) => name)).toEqual([
    "message_start",
    ...block,
    ...block,
    ...block,
    "message_delta",
    "message_stop",
  ]);
  const deltas = read.flatMap(([name, { index, delta }]) => (name === "content_block_delta" ? [[index, delta]] : []));
  expect(deltas).toEqual([
    [0, { type: "thinking_delta", thinking: "hm" }],
    [1, { type: "text_delta", text: "well" }],
    [2, { type: "input_json_delta", partial_json: '{"word":"amber"}' }],
  ]);
  expect(read.at(-2)?.[1].delta).toEqual({ stop_reason: "tool_use", stop_sequence: null });
  const [{ request, sample } = expect.fail()] = harness.samples;
  expect(read[0]?.[1].message.usage).toMatchObject({ input_tokens: request.tokens.length, output_tokens: 0 });
  expect(read.at(-2)?.[1].usage).toEqual({ output_tokens: sample.tokens.length });
});

test("a stream has a call's arguments as sampled: a large integer keeps its digits", async () => {
  const written = '{"word":12345678901234567890}';
  const { main } = await start({ script: () => `<tool_call>{"name": "lookup", "arguments": ${written}}</tool_call>` });
  const { text } = await post(main, { messages: [user("go")], tools, stream: true });
  expect(text).toContain(JSON.stringify({ type: "input_json_delta", partial_json: written }));
});

test.each([true, false])("the AI SDK's tool loop is one branch (stream: %s)", async (isStream) => {
  const { model, harness, outcome } = await start();
  const lookup = tool({ inputSchema: z.object({ word: z.string() }), execute: async ({ word }) => `after ${word}` });
  const options = {
    model,
    system: "Look.",
    prompt: both,
    tools: { lookup },
    stopWhen: stepCountIs(4),
    maxOutputTokens: 300,
  };
  const text = isStream ? await streamText(options).text : (await generateText(options)).text;
  expect(text).toBe("<answer>after amber after birch</answer>");
  const finished = await outcome({ answer: text });
  expect(finished.app?.counts["main"]).toMatchObject({ branches: 1, rewritten: 0 });
  expect(trainedOn(finished)[0]?.logProbs).toEqual(harness.samples.flatMap(({ sample }) => sample.logProbs));
});

test("the thinking that the AI SDK passes back continues the branch", async () => {
  const script = (text: string) => (text.split("assistant\n").length === 2 ? "<think>hm</think>one" : "two");
  const { model, outcome } = await start({ script });
  const first = await generateText({ model, maxOutputTokens: 300, prompt: "count" });
  expect(first).toMatchObject({ text: "one", reasoningText: "hm" });
  const said = [{ role: "user" as const, content: "count" }, ...first.response.messages];
  await generateText({ model, maxOutputTokens: 300, messages: [...said, { role: "user", content: "on" }] });
  expect((await outcome({ answer: "two" })).app?.counts["main"]).toMatchObject({ branches: 1, rewritten: 0 });
});

test("one conversation in three APIs is one branch", async () => {
  const { main, outcome } = await start();
  await ask(main, { messages: [user("say one")] });
  const headers = { authorization: `Bearer ${main.apiKey}` };
  const history = [user("say one"), { role: "assistant", content: "one" }, user("say two")];
  const chat = { method: "POST", headers, body: JSON.stringify({ model: "main", messages: history }) };
  expect((await fetch(`${main.baseURL}/chat/completions`, chat)).status).toBe(200);
  const input = [...history, { role: "assistant", content: "two" }, user("say three")];
  const response = { method: "POST", headers, body: JSON.stringify({ model: "main", input }) };
  expect((await fetch(`${main.baseURL}/responses`, response)).status).toBe(200);
  expect((await outcome({ answer: "three" })).app?.counts["main"]).toMatchObject({ branches: 1, rewritten: 0 });
});

const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "AA==" } };
const result = { type: "tool_result", tool_use_id: "toolu_1", content: "x" };
test.each([
  ["an image", { messages: [user([image])] }, "messages.0.content: a part of type 'image'"],
  [
    "a tool result without its call",
    { messages: [user([result])] },
    "messages.0.content.0.tool_use_id: the preceding assistant message has no call 'toolu_1'",
  ],
  ["a prefilled reply", { messages: [user("a"), { role: "assistant", content: "b" }] }, "messages: the last one"],
  ["a message with the role system", { messages: [{ role: "system", content: "a" }] }, "messages.0.role"],
  [
    "a forced call",
    { messages: [user("a")], tools, tool_choice: { type: "any" } },
    'tool_choice.type must be "auto" or "none"',
  ],
  ["an Anthropic-defined tool", { messages: [user("a")], tools: [{ type: "bash_20250124", name: "bash" }] }, "tools.0"],
  ["an output format", { messages: [user("a")], output_config: { format: { type: "json_schema" } } }, "output_config"],
  [
    "a task budget",
    { messages: [user("a")], output_config: { task_budget: { type: "tokens", total: 9 } } },
    "output_config.task_budget: this gateway does not support it",
  ],
  ["an unknown parameter", { messages: [user("a")], mcp_servers: [] }, "mcp_servers: this gateway does not support it"],
])("%s is refused", async (_what, body, message) => {
  const { main, harness } = await start();
  const error = { type: "invalid_request_error", message: expect.stringContaining(message), code: expect.any(String) };
  for (const stream of [true, false]) {
    expect(await ask(main, { ...body, stream })).toEqual({ status: 400, body: { type: "error", error } });
  }
  expect(harness.samples).toEqual([]);
});

test("Anthropic's own clients, which add /v1 to the base URL, reach the gateway", async () => {
  const { main } = await start();
  const { body } = await ask({ ...main, baseURL: `${main.baseURL}/v1` }, { messages: [user("say hello")] });
  expect(body.content).toEqual([{ type: "text", text: "hello" }]);
});

test("errors of keys, agents, sizes and limits have Anthropic's types", async () => {
  const { main, attempt, harness } = await start({
    config: { limits: { turns: 8, turnTokens: 100, contextTokens: 90 } },
  });
  const typeOf = async (access: AgentAccess, content: string) => {
    const { status, body } = await ask(access, { messages: [user(content)] });
    return [status, body.type, body.error.type];
  };
  expect(await typeOf({ ...main, model: "claude" }, "a")).toEqual([404, "error", "not_found_error"]);
  expect(await typeOf(main, "x".repeat(5 << 20))).toEqual([413, "error", "request_too_large"]);
  const long = await ask(main, { messages: [user("x".repeat(100))] });
  expect(long.body.error).toMatchObject({ type: "invalid_request_error", code: "context_length_exceeded" });
  expect(long.body.error.message).toMatch(/^prompt is too long/);
  expect(await typeOf({ ...main, apiKey: "sk-ant" }, "a")).toEqual([401, "error", "authentication_error"]);
  harness.attempts.close(attempt);
  expect(await typeOf(main, "a")).toEqual([401, "error", "authentication_error"]);
});
