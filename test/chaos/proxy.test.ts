/** @file What a proxy does to requests, and that its history has every one of them. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test, vi } from "vitest";
import type { Entry } from "./history.ts";
import { openProxy } from "./proxy.ts";
import type { Fault, FaultKind } from "./schedule.ts";

test("requests that hang, are lost or refused are in the history, and never reach the target", async () => {
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
  const proxy = await openProxy({
    process: "functions",
    channel: "world",
    target: () => (target.address() as AddressInfo).port,
    faults: new Map(kinds.map(faultOf)),
    now: () => performance.now(),
    record: (entry) => history.push(entry),
    onRequest: () => () => {},
  });
  const url = (path: string) => `http://127.0.0.1:${proxy.port}/${path}`;
  const caller = new AbortController();
  const hung = fetch(url("hung"), { signal: caller.signal });
  await vi.waitFor(() => expect(history).toHaveLength(1));
  caller.abort();
  await expect(hung).rejects.toThrow();
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
  await proxy.close();
  target.close();
});

test("a request is repeated after its echo's time; one whose target dies is in the history with what it may have done", async () => {
  const reached: (string | undefined)[] = [];
  const target = createServer(({ url }, response) => {
    reached.push(url);
    if (url === "/b/dies") response.destroy();
    else response.end();
  });
  target.listen(0, "127.0.0.1");
  await once(target, "listening");
  const history: Entry[] = [];
  const answered = vi.fn();
  const echo: Fault = { process: "main-a", channel: "s3", request: 0, kind: "echo", seconds: 0.05 };
  const proxy = await openProxy({
    process: "main-a",
    channel: "s3",
    target: () => (target.address() as AddressInfo).port,
    faults: new Map([[0, echo]]),
    now: () => performance.now(),
    record: (entry) => history.push(entry),
    onRequest: () => answered,
  });
  const put = (path: string) =>
    fetch(`http://127.0.0.1:${proxy.port}/b/${path}`, { method: "PUT", headers: { "if-none-match": "*" } });
  expect((await put("echoed")).status).toBe(200);
  await vi.waitFor(() => expect(reached).toEqual(["/b/echoed", "/b/echoed"]));
  await expect(put("dies")).rejects.toThrow();
  await vi.waitFor(() => expect(history).toHaveLength(3));
  expect(history.map(({ facts, possible, status }) => [status, facts, possible])).toEqual([
    [200, ["commit echoed"], undefined],
    [200, ["commit echoed"], undefined],
    [0, [], ["commit dies"]],
  ]);
  // Also after a request without an answer: a process may be to die there.
  expect(answered).toHaveBeenCalledTimes(2);
  await proxy.close();
  target.close();
});
