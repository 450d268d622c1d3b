/** @file What a proxy does to requests, and that the history has each of them. */
import { once } from "node:events";
import { Agent, createServer, type IncomingMessage, request } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test, vi } from "vitest";
import { serveHttp } from "../fakes/http-server.ts";
import type { Entry } from "./history.ts";
import { callerOf } from "./priced-model.ts";
import { openProxy } from "./proxy.ts";
import type { Fault, FaultKind } from "./schedule.ts";

test("requests that hang, are dropped or are refused are in the history, and never reach the target", async () => {
  const kinds: readonly FaultKind[] = ["hang", "drop", "throttle"];
  const faultOf = (kind: FaultKind, request: number): [number, Fault] => [
    request,
    { process: "functions", channel: "world", request, kind, seconds: 0 },
  ];
  const reached: (string | undefined)[] = [];
  const target = createServer(({ url }, response) => {
    reached.push(url);
    response.end();
  });
  target.listen(0, "127.0.0.1");
  await once(target, "listening");
  const history: Entry[] = [];
  const onRequest = vi.fn(() => () => {});
  let now = 0;
  const proxy = await openProxy({
    process: "functions",
    channel: "world",
    target: () => (target.address() as AddressInfo).port,
    faults: new Map(kinds.map(faultOf)),
    now: () => now,
    record: (entry) => history.push(entry),
    onRequest,
  });
  const url = (path: string) => `http://127.0.0.1:${proxy.port}/${path}`;
  const caller = new AbortController();
  const unanswered = expect(fetch(url("hung"), { signal: caller.signal })).rejects.toThrow();
  await vi.waitFor(() => expect(onRequest).toHaveBeenCalledOnce(), 60_000);
  now = 700;
  caller.abort();
  await unanswered;
  await vi.waitFor(() => expect(history).toHaveLength(1), 60_000);
  await expect(fetch(url("dropped"))).rejects.toThrow();
  expect((await fetch(url("throttled"))).status).toBe(429);
  expect((await fetch(url("passed"))).status).toBe(200);
  expect(history.map(({ path, fault, status }) => [path, fault, status])).toEqual([
    ["/hung", "hang", 0],
    ["/dropped", "drop", 0],
    ["/throttled", "throttle", 429],
    ["/passed", undefined, 200],
  ]);
  expect(reached).toEqual(["/passed"]);
  // From its arrival until its caller abandoned it.
  const [hung = expect.fail()] = history;
  expect(hung).toMatchObject({ sentAt: 0, answeredAt: 700 });
  await proxy.close();
  target.close();
});

test("an echoed request reaches its target twice; one whose target dies is in the history with what it may have done", async () => {
  const reached: (string | undefined)[] = [];
  const target = createServer(({ url }, response) => {
    reached.push(url);
    if (url === "/b/dies") response.destroy();
    else response.end();
  });
  target.listen(0, "127.0.0.1");
  await once(target, "listening");
  const history: Entry[] = [];
  const onEnd = vi.fn();
  const echo: Fault = { process: "main-a", channel: "s3", request: 0, kind: "echo", seconds: 0.05 };
  const proxy = await openProxy({
    process: "main-a",
    channel: "s3",
    target: () => (target.address() as AddressInfo).port,
    faults: new Map([[0, echo]]),
    now: () => performance.now(),
    record: (entry) => history.push(entry),
    onRequest: () => onEnd,
  });
  const put = (path: string) =>
    fetch(`http://127.0.0.1:${proxy.port}/b/${path}`, { method: "PUT", headers: { "if-none-match": "*" } });
  expect((await put("echoed")).status).toBe(200);
  // The repeat is in the history once it is answered.
  await vi.waitFor(() => expect(history).toHaveLength(2), 60_000);
  expect(reached).toEqual(["/b/echoed", "/b/echoed"]);
  await expect(put("dies")).rejects.toThrow();
  await vi.waitFor(() => expect(history).toHaveLength(3), 60_000);
  expect(history.map(({ facts, possible, status }) => [status, facts, possible])).toEqual([
    [200, ["commit echoed"], undefined],
    [200, ["commit echoed"], undefined],
    [0, [], ["commit dies"]],
  ]);
  // `onEnd` is called even after a request without an answer: a process may be scheduled to die then.
  expect(onEnd).toHaveBeenCalledTimes(2);
  await proxy.close();
  target.close();
});

test.each([
  ["halfway, if it has a body", "0123456789", "terminated"],
  ["before its head, if it has no body", "", "fetch failed"],
])("an answer that is cut breaks off %s", async (_, body, error) => {
  const target = createServer((_request, response) => void response.end(body));
  target.listen(0, "127.0.0.1");
  await once(target, "listening");
  const history: Entry[] = [];
  const proxy = await openProxy({
    process: "main-a",
    channel: "s3",
    target: () => (target.address() as AddressInfo).port,
    faults: new Map([[0, { process: "main-a", channel: "s3", request: 0, kind: "cut", seconds: 0 }]]),
    now: () => 7,
    record: (entry) => history.push(entry),
    onRequest: () => () => {},
  });
  const read = async () => (await fetch(`http://127.0.0.1:${proxy.port}/`, { method: "PUT" })).text();
  await expect(read()).rejects.toThrow(error);
  expect(history).toMatchObject([{ fault: "cut", status: 200 }]);
  await proxy.close();
  target.close();
});

test("a request that still hangs when its proxy is closed is in the history", async () => {
  const history: Entry[] = [];
  const onRequest = vi.fn(() => () => {});
  const proxy = await openProxy({
    process: "main-a",
    channel: "dynamo",
    target: () => expect.unreachable(),
    faults: new Map([[0, { process: "main-a", channel: "dynamo", request: 0, kind: "hang", seconds: 0 }]]),
    now: () => 7,
    record: (entry) => history.push(entry),
    onRequest,
  });
  const hung = fetch(`http://127.0.0.1:${proxy.port}/`, { method: "POST", body: "{}" }).catch(() => "closed");
  await vi.waitFor(() => expect(onRequest).toHaveBeenCalledOnce(), 60_000);
  expect(history).toEqual([]);
  await proxy.close();
  expect(await hung).toBe("closed");
  expect(history).toEqual([expect.objectContaining({ fault: "hang", status: 0, answeredAt: 7 })]);
});

test("if the target's clock is ahead, answers carry its time, and leases are counted from it", async () => {
  const DATE = "Thu, 26 Nov 2026 12:00:00 GMT";
  const target = createServer((_request, response) => void response.setHeader("date", DATE).end("{}"));
  target.listen(0, "127.0.0.1");
  await once(target, "listening");
  const history: Entry[] = [];
  const proxy = await openProxy({
    process: "functions",
    channel: "dynamo",
    target: () => (target.address() as AddressInfo).port,
    faults: new Map(),
    now: () => 7,
    aheadMs: () => 3_600_000,
    record: (entry) => history.push(entry),
    onRequest: () => () => {},
  });
  const heldUntil = { N: String(Date.parse("Thu, 26 Nov 2026 13:00:51 GMT")) };
  const item = { pk: { S: "VERDICT#a#0f" }, sk: { S: "JUDGE#judge" }, token: { S: "t" }, heldUntil };
  const response = await fetch(`http://127.0.0.1:${proxy.port}/`, {
    method: "POST",
    headers: { "x-amz-target": "DynamoDB_20120810.PutItem" },
    body: JSON.stringify({ Item: item }),
  });
  expect(response.headers.get("date")).toBe("Thu, 26 Nov 2026 13:00:00 GMT");
  const claim = { madeAt: Date.parse("Thu, 26 Nov 2026 13:00:00 GMT"), heldUntil: Number(heldUntil.N) };
  expect(history.map(({ lease }) => lease)).toEqual([
    { name: "VERDICT#a#0f JUDGE#judge", act: "grant", seconds: 51, claim },
  ]);
  await proxy.close();
  target.close();
});

test("on a channel that several processes call, the history has each request's caller, what its answer cost and when its connection was closed", async () => {
  const origin = await serveHttp(
    (_request, response) => void response.writeHead(200, { "x-answer-micro-usd": "7" }).end(),
  );
  const history: Entry[] = [];
  const onRequest = vi.fn(() => () => {});
  let now = 0;
  const proxy = await openProxy({
    process: "api",
    channel: "api",
    callerOf,
    target: () => Number(new URL(origin).port),
    faults: new Map([[2, { process: "api", channel: "api", request: 2, kind: "drop", seconds: 0 }]]),
    now: () => now,
    record: (entry) => history.push(entry),
    onRequest,
  });
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const send = async (name: string) => {
    now += 100;
    const headers = { authorization: `Bearer ${name}` };
    const sent = request({ agent, host: "127.0.0.1", port: proxy.port, headers }).end();
    const [response] = (await once(sent, "response")) as [IncomingMessage];
    await once(response.resume(), "end");
  };
  await send("searcher-a");
  await send("eval-a");
  await expect(send("eval-a")).rejects.toThrow();
  await vi.waitFor(() => expect(history[2]?.exchange?.closedAt).toBe(300), 60_000);
  expect(onRequest.mock.calls).toEqual([["searcher-a"], ["eval-a"], ["eval-a"]]);
  // All three use one connection, which is closed after the third.
  expect(history.map(({ process, answerMicroUsd, exchange }) => [process, answerMicroUsd, exchange])).toEqual([
    ["searcher-a", 7, { receivedAt: 100, deliveredAt: 100 }],
    ["eval-a", 7, { receivedAt: 200, deliveredAt: 200 }],
    ["eval-a", undefined, { receivedAt: 300, closedAt: 300 }],
  ]);
  agent.destroy();
  await proxy.close();
});
