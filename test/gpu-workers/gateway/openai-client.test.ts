/** @file The gateway as the `openai` package uses it: streams, tools, aborts, and retries after dropped connections. */
import { type AddressInfo, connect, createServer } from "node:net";
import OpenAI from "openai";
import { expect, onTestFinished, test, vi } from "vitest";
import { CUT_MARK } from "../../../core/conversation/special-tokens.ts";
import { type Harness, type HarnessOptions, openHarness, pausedSampling, trainedOn } from "./harness.ts";

async function start(options: HarnessOptions = {}) {
  const harness = await openHarness(options);
  return { harness, ...harness.open() };
}

const clientOf = ({ baseURL, apiKey }: { baseURL: string; apiKey: string }, options = {}) =>
  new OpenAI({ baseURL, apiKey, maxRetries: 0, ...options });

const user = (content: string) => ({ role: "user" as const, content });

const lookup = {
  type: "function" as const,
  function: { name: "lookup", parameters: { type: "object", properties: { word: { type: "string" } } } },
};

const called = (word: string) => `{"name": "lookup", "arguments": {"word": "${word}"}}`;

test("a completion has the text, usage and log-probs of the trained sample; the temperature requested has no effect", async () => {
  const { main, harness, outcome } = await start();
  const completion = await clientOf(main).chat.completions.create({
    ...{ model: "main", messages: [user("say hello")], logprobs: true, temperature: 0.2 },
  });
  const [choice] = completion.choices;
  expect(choice).toMatchObject({ message: { role: "assistant", content: "hello" }, finish_reason: "stop" });
  const [sampled] = harness.samples;
  expect(choice?.logprobs?.content?.map(({ logprob }) => logprob)).toEqual(
    sampled?.sample.logProbs.map((logProb) => logProb + 0),
  );
  const [prompted = 0, replied = 0] = [sampled?.request.tokens.length, sampled?.sample.tokens.length];
  expect(completion.usage).toEqual({
    ...{ prompt_tokens: prompted, completion_tokens: replied, total_tokens: prompted + replied },
  });
  expect(sampled?.request.sampling.temperature).toBe(1);
  expect(harness.lines.filter((line) => line.includes("temperature"))).toHaveLength(1);
  const finished = await outcome({ answer: "hello" });
  expect(finished.conversation).toMatchObject({ answer: "hello", stop: "answered" });
  expect(trainedOn(finished)[0]?.logProbs).toEqual(sampled?.sample.logProbs);
});

test("the limits on calls and on tool responses hold in an app's conversation too", async () => {
  const config = { limits: { turns: 8, turnTokens: 400, contextTokens: 4000, calls: 1, responseCharacters: 5 } };
  const { main, harness, outcome } = await start({ config });
  const { completions } = clientOf(main).chat;
  const ask = (text: string) => completions.create({ model: "main", messages: [user(text)], tools: [lookup] });
  const [two] = (await ask(`call ${called("amber")}\n${called("birch")}`)).choices;
  expect(two).toMatchObject({ finish_reason: "stop" });
  expect(two?.message.tool_calls).toBeUndefined();
  const [one] = (await ask(`call ${called("amber")}`)).choices;
  const [call] = one?.message.tool_calls ?? [];
  if (!one || !call) throw new Error("no call");
  const response = { role: "tool" as const, tool_call_id: call.id, content: "0123456789" };
  const messages = [user(`call ${called("amber")}`), one.message, response];
  const last = await completions.create({ model: "main", messages, tools: [lookup] });
  expect(last.choices[0]?.message.content).toBe(`<answer>01234${CUT_MARK}</answer>`);
  expect(harness.samples).toHaveLength(3);
  // The reply after the tool response continues the branch of the call.
  expect((await outcome({ answer: "x" })).app?.counts["main"]).toMatchObject({
    branches: 2,
    rewritten: 0,
    unparsed: 1,
  });
});

test("a stream adds up to the completion, and reports usage only if the request asks for it", async () => {
  const { main } = await start();
  const client = clientOf(main);
  const messages = [user(`call ${called("amber")}\n${called("birch")}`)];
  const request = { model: "main", messages, tools: [lookup], logprobs: true };
  const whole = await client.chat.completions.create(request);
  const stream = client.chat.completions.stream({ ...request, stream_options: { include_usage: true } });
  const final = await stream.finalChatCompletion();
  expect(final.choices[0]?.message.tool_calls).toMatchObject(whole.choices[0]?.message.tool_calls ?? []);
  expect(final.choices[0]?.finish_reason).toBe("tool_calls");
  expect(whole.choices[0]?.logprobs?.content?.length).toBeGreaterThan(0);
  expect(final.choices[0]?.logprobs).toEqual(whole.choices[0]?.logprobs);
  expect(final.usage).toEqual(whole.usage);
  expect(final.id).toBe(whole.id);
  const chunks = [];
  for await (const chunk of await client.chat.completions.create({ ...request, stream: true })) chunks.push(chunk);
  expect(chunks.length).toBeGreaterThan(0);
  expect(chunks.filter(({ usage }) => usage != null)).toEqual([]);
});

test("the turns of runTools form one branch, and all of them are trained on", async () => {
  const { main, harness, outcome } = await start();
  const runner = clientOf(main).chat.completions.runTools({
    model: "main",
    messages: [user(`call ${called("amber")}\n${called("birch")}`)],
    tools: [
      {
        type: "function",
        function: {
          ...lookup.function,
          function: ({ word }: { word: string }) => `after ${word}`,
          parse: JSON.parse,
          description: "What follows a word.",
        },
      },
    ],
  });
  const answer = await runner.finalContent();
  expect(answer).toBe("<answer>after amber after birch</answer>");
  const finished = await outcome({ answer: answer ?? "" });
  expect(finished.app?.counts["main"]).toEqual({ branches: 1, rewritten: 0, unparsed: 0, cut: 0 });
  const [trajectory, ...others] = trainedOn(finished);
  expect(others).toEqual([]);
  expect(trajectory?.logProbs).toEqual(harness.samples.flatMap(({ sample }) => sample.logProbs));
  expect(finished.conversation.turns.map(({ responses }) => responses.map(({ text }) => text))).toEqual([
    ["after amber", "after birch"],
    [],
  ]);
});

test("a request aborted during sampling is not recorded; its sampling continues, and a repeat gets that sample", async () => {
  const { resume, beforeSample, begun } = pausedSampling();
  const { main, harness, outcome, canceledTurns } = await start({ beforeSample });
  const { completions } = clientOf(main).chat;
  const abort = async (content: string, stream: boolean) => {
    const stop = new AbortController();
    const request = { model: "main", messages: [user(content)], stream };
    const rejected = expect(completions.create(request, { signal: stop.signal })).rejects.toThrow("aborted");
    const before = begun();
    await vi.waitFor(() => expect(begun()).toBe(before + 1), 60_000);
    stop.abort();
    await rejected;
  };
  await abort("say never", true);
  await abort("say hello", false);
  await vi.waitFor(() => expect(canceledTurns()).toBe(2), 60_000);
  resume();
  const again = await completions.create({ model: "main", messages: [user("say hello")] });
  expect(again.choices[0]?.message.content).toBe("hello");
  expect(harness.samples).toHaveLength(2);
  const finished = await outcome({ answer: "hello" });
  expect(finished.app?.counts["main"]?.branches).toBe(1);
  expect(finished.conversation.turns.map(({ text }) => text)).toEqual(["hello"]);
});

test("a repeat of a request whose stream was aborted gets the same sample, in the same branch", async () => {
  const { main, harness, outcome } = await start();
  const { completions } = clientOf(main).chat;
  const stream = await completions.create({ model: "main", messages: [user("say long things")], stream: true });
  for await (const chunk of stream) {
    expect(chunk.choices[0]?.delta.role).toBe("assistant");
    break;
  }
  const again = await completions.create({ model: "main", messages: [user("say long things")] });
  expect(again.choices[0]?.message.content).toBe("long things");
  expect(harness.samples).toHaveLength(1);
  expect((await outcome({ answer: "long things" })).app?.counts["main"]?.branches).toBe(1);
});

test.each([true, false])(
  "a retry after a dropped connection gets the first request's sample, in one branch (stream: %s)",
  async (isStream) => {
    const { resume, beforeSample, begun } = pausedSampling();
    const { main, harness, outcome } = await start({ beforeSample });
    const { port, connections } = await droppingProxy(harness, begun, resume);
    const client = clientOf({ ...main, baseURL: `http://127.0.0.1:${port}/gate/v1` }, { maxRetries: 2 });
    const request = { model: "main", messages: [user("say once")] };
    const text = isStream
      ? await client.chat.completions.stream(request).finalContent()
      : (await client.chat.completions.create(request)).choices[0]?.message.content;
    expect(text).toBe("once");
    expect(connections()).toBe(2);
    expect(harness.samples).toHaveLength(1);
    expect((await outcome({ answer: "once" })).app?.counts["main"]?.branches).toBe(1);
  },
);

/** Forwards connections. The first is dropped while its request is being sampled; then `onDropped` is called. */
async function droppingProxy({ port }: Pick<Harness, "port">, begun: () => number, onDropped: () => void) {
  let count = 0;
  const server = createServer((client) => {
    count += 1;
    const upstream = connect(port, "127.0.0.1");
    client.pipe(upstream).pipe(client);
    for (const socket of [client, upstream]) socket.on("error", () => {});
    client.on("close", () => upstream.destroy());
    if (count > 1) return;
    client.on("close", onDropped);
    void vi.waitFor(() => expect(begun()).toBe(1), 60_000).finally(() => client.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return { port: (server.address() as AddressInfo).port, connections: () => count };
}

test("the models endpoint lists the team's agents, and has each of them", async () => {
  const { main } = await start();
  const { models } = clientOf(main);
  const listed = [];
  for await (const model of models.list()) listed.push(model);
  expect(listed.map(({ id }) => id)).toEqual(["main", "searcher"]);
  expect(await models.retrieve("searcher")).toEqual(listed[1]);
  await expect(models.retrieve("gpt-5")).rejects.toMatchObject({ status: 404, code: "model_not_found" });
});

test("seeds have 64 bits: two that a number would round to the same get replies of their own", async () => {
  const { main, harness } = await start();
  const statusFor = async (seed: string) => {
    const headers = { authorization: `Bearer ${main.apiKey}`, "content-type": "application/json" };
    const body = `{"model": "main", "messages": ${JSON.stringify([user("say hello")])}, "seed": ${seed}}`;
    return (await fetch(`${main.baseURL}/chat/completions`, { method: "POST", headers, body })).status;
  };
  const seeds = ["9223372036854775806", "9223372036854775806", "9223372036854775807", "-1"];
  expect(await Promise.all(seeds.map(statusFor))).toEqual([200, 200, 200, 200]);
  expect(harness.samples).toHaveLength(3);
  expect(await Promise.all(["1e30", "0.5", '"1"'].map(statusFor))).toEqual([400, 400, 400]);
});

test("content that is neither text nor parts is refused, with the types expected", async () => {
  const { main } = await start();
  const request = { model: "main", messages: [{ role: "user", content: null } as never] };
  await expect(clientOf(main).chat.completions.create(request)).rejects.toThrow(
    /messages\.0\.content: .*expected string, received null, or .*expected array, received null/,
  );
});

test("in the gateway's process, fetch and clone return instances of the global Response and Request, but not of a subclass that the app defines", async () => {
  const { main } = await start();
  const request = new Request(`${main.baseURL}/models`, { headers: { authorization: `Bearer ${main.apiKey}` } });
  class OwnResponse extends Response {}
  const response = await fetch(request.clone());
  expect([response.status, response instanceof Response, response instanceof OwnResponse]).toEqual([200, true, false]);
  expect([request instanceof Request, request.clone() instanceof Request]).toEqual([true, true]);
  expect(new OwnResponse() instanceof OwnResponse && new OwnResponse() instanceof Response).toBe(true);
  expect(([{}, null, "text"] as unknown[]).some((other) => other instanceof Response)).toBe(false);
});
