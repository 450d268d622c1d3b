/** @file The AI SDK (`ai`) as a client of the gateway, over `/v1/chat/completions`: text, streams, tools, thinking and aborts. */
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, pruneMessages, stepCountIs, streamText, tool } from "ai";
import { expect, test, vi } from "vitest";
import * as z from "zod";
import { type HarnessOptions, openHarness, pausedSampling, trainedOn } from "./harness.ts";

async function start(options: HarnessOptions = {}) {
  const harness = await openHarness(options);
  const attempt = harness.open();
  const model = (name: "main" | "searcher") =>
    createOpenAICompatible({ name, includeUsage: true, ...attempt[name] })(attempt[name].model);
  return { harness, ...attempt, model };
}

const lookup = tool({
  description: "What follows a word.",
  inputSchema: z.object({ word: z.string() }),
  execute: async ({ word }) => `after ${word}`,
});
const calls = `call {"name": "lookup", "arguments": {"word": "amber"}}\n{"name": "lookup", "arguments": {"word": "birch"}}`;

test("generateText with a tool that is another agent: two agents, one branch each", async () => {
  const { model, harness, outcome } = await start();
  const { text, usage } = await generateText({
    ...{
      model: model("main"),
      system: "You plan.",
      prompt: `call {"name": "research", "arguments": {"task": "say found"}}`,
    },
    stopWhen: stepCountIs(4),
    tools: {
      research: tool({
        inputSchema: z.object({ task: z.string() }),
        execute: async ({ task }) => (await generateText({ model: model("searcher"), prompt: task })).text,
      }),
    },
  });
  expect(text).toBe("<answer>found</answer>");
  expect(usage.outputTokens).toBeGreaterThan(0);
  const finished = await outcome({ answer: "found" });
  expect(finished.app?.counts).toMatchObject({ main: { branches: 1, rewritten: 0 }, searcher: { branches: 1 } });
  const [invocation] = await harness.invocations(finished);
  expect(invocation?.conversation).toMatchObject({ prompt: "say found", answer: "found", stop: "answered" });
  expect(invocation?.request).toMatchObject({ agent: "searcher", version: 5, call: 0 });
});

test("streamText with tools: all turns are one branch, and each is trained on once", async () => {
  const { model, harness, outcome } = await start();
  const stream = streamText({ model: model("main"), prompt: calls, stopWhen: stepCountIs(4), tools: { lookup } });
  expect(await stream.text).toBe("<answer>after amber after birch</answer>");
  expect((await stream.steps)[0]?.toolCalls.map(({ input }) => input)).toEqual([{ word: "amber" }, { word: "birch" }]);
  const finished = await outcome({ answer: "after amber after birch" });
  expect(finished.app?.counts["main"]).toMatchObject({ branches: 1, rewritten: 0 });
  const [trajectory] = trainedOn(finished);
  expect(trajectory?.logProbs).toEqual(harness.samples.flatMap(({ sample }) => sample.logProbs));
});

test.each(["sent back", "dropped"])(
  "thinking is returned separately; a history with thinking %s continues the branch",
  async (habit) => {
    const script = (conversation: string) =>
      conversation.split("<|im_start|>assistant\n").length === 2 ? "<think>hm</think>one" : "two";
    const { model, harness, outcome } = await start({ script });
    const first = await generateText({ model: model("main"), prompt: "count" });
    expect(first).toMatchObject({ text: "one", reasoningText: "hm" });
    const history =
      habit === "dropped"
        ? pruneMessages({ messages: first.response.messages, reasoning: "all" })
        : first.response.messages;
    const messages = [{ role: "user" as const, content: "count" }, ...history];
    await generateText({ model: model("main"), messages: [...messages, { role: "user", content: "on" }] });
    const [one = expect.fail(), two = expect.fail()] = harness.samples;
    const sampled = [...one.request.tokens, ...one.sample.tokens];
    expect(two.request.tokens.slice(0, sampled.length)).toEqual(sampled);
    expect((await outcome({ answer: "two" })).app?.counts["main"]).toMatchObject({ branches: 1, rewritten: 0 });
  },
);

test("abortSignal: an aborted generateText is not recorded", async () => {
  const { resume, beforeSample, begun } = pausedSampling();
  const { model, harness, outcome, canceledTurns } = await start({ beforeSample });
  const stop = new AbortController();
  const aborted = generateText({ model: model("main"), prompt: "say no", abortSignal: stop.signal });
  const rejected = expect(aborted).rejects.toThrow();
  await vi.waitFor(() => expect(begun()).toBe(1), 60_000);
  stop.abort();
  await rejected;
  await vi.waitFor(() => expect(canceledTurns()).toBe(1), 60_000);
  resume();
  await vi.waitFor(() => expect(harness.samples).toHaveLength(1), 60_000);
  const finished = await outcome({ answer: "nothing" });
  expect(finished.trajectory).toMatchObject({ actions: [] });
  expect(finished.app?.counts["main"]).toEqual({ branches: 0, rewritten: 0, unparsed: 0, cut: 0 });
});
