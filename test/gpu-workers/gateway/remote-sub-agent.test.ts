/** @file A sub-agent in another worker: which worker serves a session, and what its failures mean for the attempt. */
import { expect, test, vi } from "vitest";
import type { AgentSession, AppMessage, TurnReply, TurnRequest } from "../../../core/contracts/app-chat.ts";
import type { WorkerRecord } from "../../../core/contracts/records.ts";
import { LimitReached } from "../../../gpu-workers/gateway/limit-reached.ts";
import { type RemoteWorkers, remoteSubAgent } from "../../../gpu-workers/gateway/remote-sub-agent.ts";
import {
  TransientFailure,
  type WorkerRequest,
  type WorkerResponse,
} from "../../../gpu-workers/invocations/worker-client.ts";
import { planOf, VERSIONS } from "./harness.ts";

const never = new AbortController().signal;
const { address, sampling } = planOf(0);
const session: AgentSession = {
  ...{ id: "a".repeat(22), run: address.run, address, questionId: "q", agent: "searcher" },
  ...{ version: VERSIONS.searcher, sampling },
};
const asking = (text: string): TurnRequest => ({
  ...{ messages: [{ role: "user", text }], tools: [], mayCall: true, stopStrings: [], variant: "" },
});
const reply = (exchange: string): WorkerResponse => {
  const usage = { inputTokens: 1, outputTokens: 1 };
  const body: TurnReply = { exchange, text: "", thinking: "", calls: [], stopReason: "stop", usage, tokens: [] };
  return { status: 200, text: JSON.stringify(body) };
};
const broken = () => new TransientFailure("the connection broke", { isWorkerAtFault: true, workerDied: true });

/** Workers w1, w2, … with scripted answers. A worker that fails is passed over for good. */
function team(names: string[], answer: (worker: string, request: WorkerRequest) => Promise<WorkerResponse>) {
  const calls: string[] = [];
  const passedOver = new Set<string>();
  const note = (worker: WorkerRecord, method: string, path: string) =>
    calls.push(`${worker.worker} ${method === "DELETE" ? method : path.split("/").at(-1)}`);
  const remote = {
    pool: {
      pick: async () => {
        const worker = names.find((name) => !passedOver.has(name));
        return worker && { worker, url: `http://${worker}` };
      },
      passOver: ({ worker }: WorkerRecord) => passedOver.add(worker),
    },
    client: {
      call: (worker: WorkerRecord, request: WorkerRequest) => {
        note(worker, request.method, request.path);
        return answer(worker.worker, request);
      },
      delete: (worker: WorkerRecord, path: string) => note(worker, "DELETE", path),
    },
    agents: { searcher: { limits: { responseCharacters: 10 } } },
  };
  return { calls, passedOver, sub: remoteSubAgent(remote as unknown as RemoteWorkers, "searcher") };
}

test("concurrent first requests of a session go to one worker, even if another one ranks first by then", async () => {
  let finish = () => {};
  const sampling = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const { sub, calls, passedOver } = team(["w1", "w2"], async (_worker, { body }) => {
    await sampling;
    return reply(body?.includes("one") ? "1" : "2");
  });
  const first = sub.turn(session, asking("one"), never);
  await vi.waitFor(() => expect(calls).toHaveLength(1), 60_000);
  passedOver.add("w1");
  const second = sub.turn(session, asking("two"), never);
  await vi.waitFor(() => expect(calls).toHaveLength(2), 60_000);
  finish();
  await Promise.all([first, second]);
  expect(calls).toEqual(["w1 turns", "w1 turns"]);
});

test("a turn whose worker has no reply yet (202) is asked for again, with the same request", async () => {
  const bodies: (string | undefined)[] = [];
  const { sub, calls } = team(["w1"], async (_worker, { body }) =>
    bodies.push(body) < 3 ? { status: 202, text: "" } : reply("1"),
  );
  expect(await sub.turn(session, asking("one"), never)).toMatchObject({ exchange: "1" });
  expect(calls).toEqual(["w1 turns", "w1 turns", "w1 turns"]);
  expect(new Set(bodies).size).toBe(1);
});

test("a session whose worker fails before its first reply goes to another one; discarding it deletes it from both", async () => {
  const { sub, calls } = team(["w1", "w2"], async (worker) => {
    if (worker === "w1") throw broken();
    return reply("1");
  });
  await sub.turn(session, asking("one"), never);
  expect(calls).toEqual(["w1 turns", "w2 turns"]);
  sub.discard(session);
  expect(calls.slice(2)).toEqual(["w1 DELETE", "w2 DELETE"]);
});

test("a first turn that has killed two workers is abandoned: a third gets no call", async () => {
  const { sub, calls } = team(["w1", "w2", "w3"], async () => Promise.reject(broken()));
  const turn = sub.turn(session, asking("one"), never);
  await expect(turn).rejects.toMatchObject({ code: "worker-unavailable", retryable: false });
  expect(calls).toEqual(["w1 turns", "w2 turns"]);
});

test.each([
  ["breaks the connection", "worker-unavailable", async () => Promise.reject(broken())],
  ["drains", "session-lost", async () => ({ status: 503, text: "draining" })],
  ["was restarted", "session-lost", async () => ({ status: 404, text: "404 Not Found" })],
])("a session that has a reply is lost at once when its worker %s: %s", async (_how, code, fail) => {
  let turns = 0;
  const { sub, calls } = team(["w1", "w2"], async () => (turns++ === 0 ? reply("1") : fail()));
  await sub.turn(session, asking("one"), never);
  await expect(sub.turn(session, asking("two"), never)).rejects.toMatchObject({ code, retryable: true });
  expect(calls).toEqual(["w1 turns", "w1 turns"]);
});

test("the abort of an attempt cancels its first turn and any later one", async () => {
  const stop = new AbortController();
  const { sub, calls } = team(
    ["w1"],
    (_worker, { signal }) =>
      new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true })),
  );
  const turn = sub.turn(session, asking("one"), stop.signal);
  await vi.waitFor(() => expect(calls).toEqual(["w1 turns"]), 60_000);
  stop.abort();
  await expect(turn).rejects.toMatchObject({ code: "canceled" });
  sub.discard(session);
  expect(calls).toEqual(["w1 turns", "w1 DELETE"]);
  // A late request of the attempt reaches no worker.
  await expect(sub.turn(session, asking("two"), stop.signal)).rejects.toMatchObject({ code: "canceled" });
  expect(calls).toHaveLength(2);
});

test("a session ends on its worker, if it has one; discarding it then deletes nothing", async () => {
  const ended = { invocations: [], counts: { branches: 1, rewritten: 0, unparsed: 0, cut: 0 } };
  const { sub, calls } = team(["w1"], async (_worker, { path }) =>
    path.endsWith("/end") ? { status: 200, text: JSON.stringify(ended) } : reply("1"),
  );
  expect(await sub.end(session, { delivered: [], callTexts: [] }, never)).toMatchObject({ counts: { branches: 0 } });
  await sub.turn(session, asking("one"), never);
  expect(await sub.end(session, { delivered: ["1"], callTexts: [] }, never)).toEqual(ended);
  sub.discard(session);
  expect(calls).toEqual(["w1 turns", "w1 end"]);
});

const responses = (...texts: string[]): TurnRequest => ({
  ...asking("read"),
  messages: texts.map((text): AppMessage => ({ role: "tool", call: 0, text })),
});

test("a tool response is sent with one more character than the agent sees; a shorter one is sent in full", async () => {
  const sent: string[] = [];
  const { sub } = team(["w1"], async (_worker, { body = "" }) => {
    sent.push(...JSON.parse(body).request.messages.map(({ text }: AppMessage) => text));
    return reply("1");
  });
  await sub.turn(session, responses("0123456789abc", "0123456789", ...Array(5).fill("x".repeat(2 << 20))), never);
  expect(sent).toEqual(["0123456789a", "0123456789", ...Array(5).fill("x".repeat(11))]);
});

test("a conversation of more than 8 MiB reaches the agent's limit, and no worker", async () => {
  const { sub, calls } = team(["w1"], async () => reply("1"));
  const turn = sub.turn(session, asking("x".repeat(8 << 20)), never);
  await expect(turn).rejects.toBeInstanceOf(LimitReached);
  await expect(turn).rejects.toThrow(/larger than 8388608 bytes/);
  expect(calls).toEqual([]);
});

test("a request of more than 8 MiB to end a session is refused before it reaches the worker, and the error says what to lower", async () => {
  const { sub, calls } = team(["w1"], async () => reply("1"));
  await sub.turn(session, asking("one"), never);
  const summary = { delivered: ["1"], callTexts: ["x".repeat(8 << 20)] };
  await expect(sub.end(session, summary, never)).rejects.toMatchObject({
    ...{ code: "request-refused", retryable: false },
    message: expect.stringMatching(/larger than 8388608 bytes: lower the main agent's limits\.turns/),
  });
  expect(calls).toEqual(["w1 turns"]);
});

test("a request that is too large for a proxy is refused, and the error says to raise the proxy's limit", async () => {
  const { sub } = team(["w1"], async () => ({ status: 413, text: "Request Entity Too Large" }));
  await expect(sub.turn(session, asking("one"), never)).rejects.toMatchObject({
    ...{ code: "request-refused", retryable: false },
    message: expect.stringMatching(/413.*; raise the body limit/),
  });
});
