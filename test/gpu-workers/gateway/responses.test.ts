/** @file `/v1/responses` with the `openai` package and the AI SDK: items, chains of responses, streams, and errors. */
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs, streamText, tool } from "ai";
import OpenAI, { APIError } from "openai";
import type { ResponseInputItem, ResponseOutputItem } from "openai/resources/responses/responses";
import { expect, test } from "vitest";
import * as z from "zod";
import { type HarnessOptions, openHarness, tokenizer, trainedOn } from "./harness.ts";

async function start(options: HarnessOptions = {}) {
  const harness = await openHarness(options);
  const attempt = harness.open();
  const { baseURL, apiKey } = attempt.main;
  const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
  return { harness, ...attempt, client, model: createOpenAI({ baseURL, apiKey })("main") };
}

const parameters = { type: "object", properties: { word: { type: "string" } } };
const lookup = { type: "function" as const, name: "lookup", parameters, strict: false };
const called = (word: string) => `{"name": "lookup", "arguments": {"word": "${word}"}}`;
const both = `call ${called("amber")}\n${called("birch")}`;

/** Log-probs as a response has them: `JSON.stringify` writes -0 as 0. */
const unsignedZeros = (logProbs: readonly number[]) => logProbs.map((logProb) => logProb + 0);

/** "one" with a thought, then "two". */
const thinks = (conversation: string) =>
  conversation.split("<|im_start|>assistant\n").length === 2 ? "<think>hm</think>one" : "two";

/** A response's items as the next request's input: the package has different types for the two. */
const inputOf = (items: readonly ResponseOutputItem[]) => items as ResponseInputItem[];

const outputsOf = (items: readonly ResponseOutputItem[]): ResponseInputItem[] =>
  items.flatMap((item) =>
    item.type === "function_call"
      ? {
          type: "function_call_output" as const,
          call_id: item.call_id,
          output: `after ${JSON.parse(item.arguments).word}`,
        }
      : [],
  );

test("a response has the sample's log-probs and usage, and is incomplete if cut; instructions are the system message", async () => {
  const { client, harness, outcome } = await start();
  const response = await client.responses.create({
    ...{ model: "main", instructions: "Be short.", input: "say hello", temperature: 0.1 },
    include: ["message.output_text.logprobs"],
  });
  expect(response).toMatchObject({ status: "completed", output_text: "hello", error: null });
  const [sampled] = harness.samples;
  expect(tokenizer.decode(sampled?.request.tokens ?? [])).toContain(
    "<|im_start|>system\nBe short.<|im_end|>\n<|im_start|>user\nsay hello<|im_end|>",
  );
  const [message] = response.output;
  const [part] = message?.type === "message" ? message.content : [];
  expect(part?.type === "output_text" ? part.logprobs?.map(({ logprob }) => logprob) : []).toEqual(
    unsignedZeros(sampled?.sample.logProbs ?? []),
  );
  const [prompted = 0, replied = 0] = [sampled?.request.tokens.length, sampled?.sample.tokens.length];
  expect(response.usage).toMatchObject({
    ...{ input_tokens: prompted, output_tokens: replied, total_tokens: prompted + replied },
  });
  const cut = await client.responses.create({ model: "main", input: "say hello", max_output_tokens: 2 });
  expect(cut).toMatchObject({
    status: "incomplete",
    incomplete_details: { reason: "max_output_tokens" },
    output_text: "he",
  });
  expect((await outcome({ answer: "hello" })).app?.counts["main"]).toMatchObject({ branches: 2, cut: 1 });
});

test("outputs of calls continue the sampled turn, whether the request repeats its items or names its response", async () => {
  const { client, outcome } = await start();
  const request = { model: "main", instructions: "Look.", tools: [lookup] };
  const first = await client.responses.create({ ...request, input: both });
  expect(first.output.map(({ type }) => type)).toEqual(["function_call", "function_call"]);
  const named = await client.responses.create({
    ...{ ...request, previous_response_id: first.id, input: outputsOf(first.output) },
  });
  expect(named.output_text).toBe("<answer>after amber after birch</answer>");
  const items: ResponseInputItem[] = [
    { role: "user", content: both },
    ...inputOf(first.output),
    ...outputsOf(first.output),
  ];
  const repeated = await client.responses.create({ ...request, input: items });
  expect(repeated.output).toEqual(named.output);
  const [one, two] = inputOf(first.output);
  const [outputOne, outputTwo] = outputsOf(first.output);
  if (!one || !two || !outputOne || !outputTwo) expect.fail();
  const interleaved = [{ role: "user" as const, content: both }, one, outputOne, two, outputTwo];
  expect((await client.responses.create({ ...request, input: interleaved })).id).toBe(repeated.id);
  const last = await client.responses.create({ ...request, previous_response_id: named.id, input: "say done" });
  expect(last.output_text).toBe("done");
  expect((await outcome({ answer: "done" })).app?.counts["main"]).toMatchObject({ branches: 1, rewritten: 0 });
});

test("thinking passed back continues the tokens that were sampled, and so do references to items", async () => {
  const { client, harness, outcome } = await start({ script: thinks });
  const first = await client.responses.create({ model: "main", input: "count" });
  expect(first.output.map(({ type }) => type)).toEqual(["reasoning", "message"]);
  const on = { role: "user" as const, content: "on" };
  const count = { role: "user" as const, content: "count" };
  const second = await client.responses.create({ model: "main", input: [count, ...inputOf(first.output), on] });
  const references = first.output.map(({ id }) => ({ type: "item_reference" as const, id: id ?? "" }));
  expect((await client.responses.create({ model: "main", input: [count, ...references, on] })).id).toBe(second.id);
  expect(harness.samples).toHaveLength(2);
  const [thought] = harness.samples;
  const continued = [...(thought?.request.tokens ?? []), ...(thought?.sample.tokens ?? [])];
  expect(harness.samples[1]?.request.tokens.slice(0, continued.length)).toEqual(continued);
  expect((await outcome({ answer: "two" })).app?.counts["main"]).toMatchObject({ branches: 1, rewritten: 0 });
});

test("an agent can continue a response of another agent: in its only conversation, this does not count as rewritten history", async () => {
  const { client, outcome } = await start();
  const first = await client.responses.create({ model: "main", input: "say plan" });
  const next = await client.responses.create({ model: "searcher", previous_response_id: first.id, input: "say found" });
  expect(next.output_text).toBe("found");
  expect((await outcome({ answer: "" })).app?.counts["searcher"]).toMatchObject({ branches: 1, rewritten: 0 });
});

test("a stream has the events of each item, and ends with the response", async () => {
  const { client, harness } = await start({
    script: (text) => (text.includes("think") ? thinks(text) : `and ${bothCalls()}`),
  });
  const request = { model: "main", input: "go", tools: [lookup] };
  const whole = await client.responses.create(request);
  const stream = client.responses.stream(request);
  const types: string[] = [];
  for await (const { type, sequence_number: n } of stream) expect(types.push(type) - 1).toBe(n);
  const final = await stream.finalResponse();
  expect(final.id).toBe(whole.id);
  expect(final.output.map(({ type }) => type)).toEqual(["message", "function_call", "function_call"]);
  expect(final.output_text).toBe(whole.output_text);
  const call = [
    "output_item.added",
    "function_call_arguments.delta",
    "function_call_arguments.done",
    "output_item.done",
  ];
  const events = [
    ...["created", "in_progress", "output_item.added", "content_part.added", "output_text.delta", "output_text.done"],
    ...["content_part.done", "output_item.done", ...call, ...call, "completed"],
  ];
  expect(types).toEqual(events.map((event) => `response.${event}`));
  const thought = client.responses.stream({ model: "main", input: "think" });
  expect((await thought.finalResponse()).output.map(({ type }) => type)).toEqual(["reasoning", "message"]);
  expect(harness.samples).toHaveLength(2);
});

const bothCalls = () => ["amber", "birch"].map((word) => `<tool_call>${called(word)}</tool_call>`).join("");

test.each([true, false])("a tool loop of the AI SDK stays in one branch (stored items: %s)", async (store) => {
  const { model, harness, outcome } = await start();
  const tools = {
    lookup: tool({ inputSchema: z.object({ word: z.string() }), execute: async ({ word }) => `after ${word}` }),
  };
  const options = { model, tools, stopWhen: stepCountIs(4), providerOptions: { openai: { store } } };
  const { text } = await generateText({ ...options, system: "Look.", prompt: both });
  expect(text).toBe("<answer>after amber after birch</answer>");
  const stream = streamText({ ...options, system: "Look.", prompt: both });
  expect(await stream.text).toBe(text);
  expect(harness.samples).toHaveLength(2);
  const finished = await outcome({ answer: text });
  expect(finished.app?.counts["main"]).toMatchObject({ branches: 1, rewritten: 0 });
  expect(trainedOn(finished)[0]?.logProbs).toEqual(harness.samples.flatMap(({ sample }) => sample.logProbs));
});

test("thinking and text that the AI SDK passes back, as items or as references, continue the branch", async () => {
  for (const store of [true, false]) {
    const { model, outcome } = await start({ script: thinks });
    const include = store ? [] : ["reasoning.encrypted_content"];
    const options = { model, providerOptions: { openai: { store, include } } };
    const first = await generateText({ ...options, prompt: "count" });
    expect(first).toMatchObject({ text: "one", reasoningText: "hm" });
    const said = [{ role: "user" as const, content: "count" }, ...first.response.messages];
    const second = await generateText({ ...options, messages: [...said, { role: "user", content: "on" }] });
    expect([second.text, second.warnings]).toEqual(["two", []]);
    expect((await outcome({ answer: "two" })).app?.counts["main"]).toMatchObject({ branches: 1, rewritten: 0 });
  }
});

test.each([
  [{ input: "x", previous_response_id: "resp_main_1" }, "previous_response_not_found", "previous_response_id"],
  [{ input: [] }, "invalid_value", "input"],
  [{ input: [{ type: "item_reference", id: "msg_1" }] }, "invalid_value", "input.0.id"],
  [{ input: [{ type: "item_reference" }] }, "invalid_value", "input.0.id"],
  [{ input: [{ content: "x" }] }, "invalid_value", "input.0"],
  [{ input: [{ type: "function_call_output", call_id: "c", output: "" }] }, "invalid_value", "input.0.call_id"],
  [{ input: [{ type: "function_call", name: "a", arguments: "{}" }] }, "invalid_value", "input.0.call_id"],
  [{ input: [{ type: "web_search_call", id: "w" }] }, "unsupported_value", "input.0.type"],
  [
    ...[{ input: [{ role: "user", content: [{ type: "input_image", image_url: "data:" }] }] }],
    ...["unsupported_value", "input.0.content"],
  ],
  [{ input: "x", tools: [{ type: "web_search" }] }, "unsupported_value", "tools.0.type"],
  [{ input: "x", tool_choice: "required" }, "unsupported_value", "tool_choice"],
  [{ input: "x", text: { format: { type: "json_schema" } } }, "unsupported_value", "text.format"],
  [{ input: "x", background: true }, "unsupported_value", "background"],
  [{ input: "x", conversation: "conv_1" }, "unknown_parameter", "conversation"],
] as [object, string, string][])("%j is refused as %s", async (body, code, param) => {
  const { client, harness } = await start();
  for (const stream of [true, false]) {
    const error = await client.responses.create({ model: "main", ...body, stream } as never).then(
      () => expect.fail("it was not refused"),
      (one: unknown) => one,
    );
    expect(error).toBeInstanceOf(APIError);
    expect(error).toMatchObject({ status: 400, code, param, type: "invalid_request_error" });
    expect(String(error)).not.toContain("'undefined'");
  }
  expect(harness.samples).toEqual([]);
});
