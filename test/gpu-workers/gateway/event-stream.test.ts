/**
 * @file A stream whose reply is late is kept alive; an error after the stream has started is sent as an event in the
 * format of its API.
 */
import OpenAI from "openai";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { chatCompletions } from "../../../gpu-workers/gateway/api/chat-reply.ts";
import { ApiError } from "../../../gpu-workers/gateway/api/errors.ts";
import { eventStream, type ServerEvent } from "../../../gpu-workers/gateway/api/event-stream.ts";
import { messages } from "../../../gpu-workers/gateway/api/messages-reply.ts";
import { responses } from "../../../gpu-workers/gateway/api/responses-reply.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const asked = { model: "main", stream: true } as const;
const gone = new ApiError(503, "worker-unavailable", "it is gone");

async function late(errorEvent: (error: ApiError) => ServerEvent = chatCompletions.errorEvent) {
  let resolve: (events: ServerEvent[]) => void = () => {};
  let reject: (error: ApiError) => void = () => {};
  const events = new Promise<ServerEvent[]>((...settle) => {
    [resolve, reject] = settle;
  });
  const response = eventStream(events, (error) => errorEvent(error as ApiError));
  await vi.advanceTimersByTimeAsync(5_000);
  return { response: await response, resolve, reject };
}

test("a stream is kept alive until the reply arrives", async () => {
  const { response, resolve } = await late();
  const text = response.text();
  await vi.advanceTimersByTimeAsync(25_000);
  resolve([{ name: "done", data: "{}" }]);
  expect(await text).toBe(": waiting\n\n: waiting\n\nevent: done\ndata: {}\n\n");
  expect(vi.getTimerCount()).toBe(0);
});

test("an error before the stream starts is thrown, not sent as an event", async () => {
  await expect(eventStream(Promise.reject(gone), chatCompletions.errorEvent as never)).rejects.toBe(gone);
});

const error = { message: "it is gone", code: "worker-unavailable" };
const openAis = { ...error, type: "server_error", param: null };
test.each([
  ["chat completions", chatCompletions, "", { error: openAis }],
  [
    "responses",
    responses,
    "event: error\n",
    { ...error, type: "error", sequence_number: 0, param: null, error: openAis },
  ],
  ["messages", messages, "event: error\n", { type: "error", error: { ...error, type: "api_error" } }],
])("a late error is an event: %s", async (_api, { errorEvent }, name, data) => {
  const { response, reject } = await late(errorEvent);
  reject(gone);
  const text = await response.text();
  expect(text.startsWith(`${name}data: `)).toBe(true);
  expect(JSON.parse(text.slice(name.length + "data: ".length))).toEqual(data);
});

test.each([
  ["chat completions", chatCompletions, ({ chat }: OpenAI) => chat.completions.create({ ...asked, messages: [] })],
  ["responses", responses, ({ responses }: OpenAI) => responses.create({ ...asked, input: "go" })],
])("OpenAI's client throws a late error with its message: %s", async (_api, { errorEvent }, ask) => {
  const { response, reject } = await late(errorEvent);
  reject(gone);
  const stream = await ask(new OpenAI({ apiKey: "key", maxRetries: 0, fetch: async () => response }));
  const next = (stream as AsyncIterable<unknown>)[Symbol.asyncIterator]().next();
  await expect(next).rejects.toMatchObject(error);
});

test("the pings stop when the client disconnects, and no timer is left after the reply", async () => {
  const { response, resolve } = await late();
  await response.body?.cancel();
  expect(vi.getTimerCount()).toBe(0);
  resolve([{ data: "{}" }]);
  await vi.advanceTimersByTimeAsync(20_000);
  expect(vi.getTimerCount()).toBe(0);
});
