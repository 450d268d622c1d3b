/**
 * @file Signed calls between workers, and the signed reports that answer them: which are accepted, which are refused, and that a proxy in front
 * of a worker changes nothing.
 */
import { afterEach, expect, test } from "vitest";
import type { WorkerRecord } from "../../core/contracts/records.ts";
import {
  openCallSigner,
  openCallVerifier,
  openReportSigner,
  type WorkerCall,
} from "../../gpu-workers/invocations/signature.ts";
import { responseFailure, TransientFailure, WorkerClient } from "../../gpu-workers/invocations/worker-client.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { closeProxies, freePort, type ProxySettings, startProxy } from "../fakes/proxies.ts";
import { relayConfig } from "../fixtures/relay/start.ts";
import { startRelay, TOKEN } from "../fixtures/relay/world.ts";

const MINUTE = 60_000;
const CALL: WorkerCall = { method: "PUT", path: "/invocations/abc?wait=5", body: '{"task":"look up amber"}' };

/** A worker that calls and one that is called, each with a clock of its own. */
function pair(callerSecret = "the same secret", serverSecret = "the same secret") {
  const clocks = { caller: 1_800_000_000_000, server: 1_800_000_000_000 };
  const sign = openCallSigner(callerSecret, { storeTime: async () => clocks.caller });
  const verify = openCallVerifier(serverSecret, { storeTime: async () => clocks.server });
  return {
    clocks,
    call: () => sign(CALL),
    sign: async (call: WorkerCall) => (await sign(call)).headers,
    verify: (call: WorkerCall, headers: Record<string, string>) => verify(call, (name) => headers[name]),
  };
}

test("a signed call is accepted once", async () => {
  const { sign, verify } = pair();
  const headers = await sign(CALL);
  expect(await verify(CALL, headers)).toBeUndefined();
  expect(await verify(CALL, headers)).toEqual({ status: 409, reason: "this call was already received" });
  expect(await verify(CALL, await sign(CALL))).toBeUndefined();
});

test.each<[string, Partial<WorkerCall>]>([
  ["method", { method: "DELETE" }],
  ["path", { path: "/invocations/abd?wait=5" }],
  ["query", { path: "/invocations/abc?wait=6" }],
  ["body", { body: '{"task":"look up amber."}' }],
])("a call with a different %s is refused", async (_part, change) => {
  const { sign, verify } = pair();
  const headers = await sign(CALL);
  expect(await verify({ ...CALL, ...change }, headers)).toMatchObject({
    status: 401,
    reason: expect.stringMatching(/does not match the secret/),
  });
  // The refusal did not consume the nonce.
  expect(await verify(CALL, headers)).toBeUndefined();
});

test("a call with a different time, nonce or secret is refused, and so is an unsigned call", async () => {
  const { sign, verify } = pair();
  const headers = await sign(CALL);
  const later = String(Number(headers["x-mgrpo-time"]) + 1);
  expect(await verify(CALL, { ...headers, "x-mgrpo-time": later })).toMatchObject({
    status: 401,
    reason: expect.stringMatching(/does not match the secret/),
  });
  const nonce = (await sign(CALL))["x-mgrpo-nonce"] ?? "";
  expect(await verify(CALL, { ...headers, "x-mgrpo-nonce": nonce })).toMatchObject({
    status: 401,
    reason: expect.stringMatching(/does not match the secret/),
  });
  expect(await verify(CALL, {})).toMatchObject({ status: 401, reason: expect.stringMatching(/not signed/) });
  const strangers = pair("another secret");
  expect(await strangers.verify(CALL, await strangers.sign(CALL))).toMatchObject({
    status: 401,
    reason: expect.stringMatching(/does not match the secret/),
  });
});

test("calls dated within five minutes of store time are accepted; a nonce is remembered for as long as its call could be accepted", async () => {
  const { clocks, sign, verify } = pair();
  clocks.caller = clocks.server + 4.9 * MINUTE;
  const headers = await sign(CALL);
  expect(await verify(CALL, headers)).toBeUndefined();
  clocks.server += 9.8 * MINUTE;
  expect(await verify(CALL, headers)).toEqual({ status: 409, reason: "this call was already received" });
  clocks.server += 0.2 * MINUTE;
  expect(await verify(CALL, headers)).toMatchObject({
    status: 401,
    reason: expect.stringMatching(/306 s off the server's clock/),
  });
  clocks.caller = clocks.server - 5.1 * MINUTE;
  expect(await verify(CALL, await sign(CALL))).toMatchObject({
    status: 401,
    reason: expect.stringMatching(/306 s off/),
  });
});

test("a replay of a call dated five minutes ahead is refused for as long as its date is accepted", async () => {
  const { clocks, sign, verify } = pair();
  clocks.caller = clocks.server + 5 * MINUTE;
  const headers = await sign(CALL);
  expect(await verify(CALL, headers)).toBeUndefined();
  clocks.server += 10 * MINUTE;
  expect(await verify(CALL, headers)).toEqual({ status: 409, reason: "this call was already received" });
});

test("a report is authentic only if this team signed it for this call", async () => {
  const { call } = pair();
  const [first, second] = [await call(), await call()];
  const signed = (secret: string, body: string) => {
    const headers = openReportSigner(secret)(body, (name) => first.headers[name]);
    return (name: string) => headers[name] ?? null;
  };
  const header = signed("the same secret", "birch");
  expect(first.isAuthenticReport("birch", header)).toBe(true);
  expect(first.isAuthenticReport("beech", header)).toBe(false);
  expect(second.isAuthenticReport("birch", header)).toBe(false);
  expect(first.isAuthenticReport("birch", signed("another secret", "birch"))).toBe(false);
  expect(first.isAuthenticReport("birch", () => null)).toBe(false);
  // The call's own signature does not authenticate a report.
  expect(first.isAuthenticReport("", (name) => first.headers[name] ?? null)).toBe(false);
});

test.each([200, 422])(
  "a report with status %i (200: a result, 422: a limit is reached) is accepted only if it is signed",
  async (status) => {
    const clock = { storeTime: async () => 0 };
    const answering = (sign: (body: string, call: Headers) => Record<string, string>) => {
      const fetch = async (_url: string, init: RequestInit) =>
        new Response("report", { status, headers: sign("report", new Headers(init.headers)) });
      return new WorkerClient(
        openCallSigner("the same secret", clock),
        { fetch },
        createLog(() => {}),
      );
    };
    const worker = { worker: "w1", url: "http://w1" } as WorkerRecord;
    const request = { path: "/sessions/a/turns", method: "POST", signal: new AbortController().signal } as const;
    const forging = answering(() => ({}));
    await expect(forging.call(worker, request)).rejects.toThrow("without a valid signature");
    const signReport = openReportSigner("the same secret");
    const honest = answering((body, call) => signReport(body, (name) => call.get(name) ?? undefined));
    expect(await honest.call(worker, request)).toMatchObject({ status, text: "report" });
  },
);

test("a call whose copy arrived first can be repeated: its failure is transient", async () => {
  const { verify } = pair();
  const request = { path: "/sessions/a/turns", method: "POST", signal: new AbortController().signal } as const;
  const fetch = async (_url: string, { headers }: RequestInit) => {
    const call: WorkerCall = { ...request, body: "" };
    const signed = headers as Record<string, string>;
    expect(await verify(call, signed)).toBeUndefined();
    const refusal = await verify(call, signed);
    return new Response(refusal?.reason, { status: refusal?.status ?? 200 });
  };
  const sign = openCallSigner("the same secret", { storeTime: async () => 1_800_000_000_000 });
  const client = new WorkerClient(
    sign,
    { fetch },
    createLog(() => {}),
  );
  const worker = { worker: "w1", url: "http://w1" } as WorkerRecord;
  const failure = responseFailure(worker, await client.call(worker, request));
  expect(failure).toBeInstanceOf(TransientFailure);
  expect(failure.message).toContain("already received");
});

afterEach(closeProxies);

/** Trains a run of one step to its end with the searcher behind a proxy. */
async function trainThrough(options: ProxySettings) {
  const { memory, work } = await startRelay(relayConfig({ steps: 1 }));
  const behind = await freePort();
  const url = `${await startProxy(`http://127.0.0.1:${behind}`, options)}/`;
  await Promise.all([work(), work({ agent: "searcher", port: behind, url })]);
  return memory.objects;
}

test("a report that was changed in transit is requested again and never used", async () => {
  let forged = 0;
  const objects = await trainThrough({
    changeResponse(body) {
      if (forged >= 3 || !body.includes('"answer"')) return body;
      forged++;
      return Buffer.from(body.toString().replace(/"answer":"[^"]*"/, '"answer":"FORGED"'));
    },
  });
  expect(forged).toBe(3);
  for (const key of objects.keys()) expect(new TextDecoder().decode(await objects.get(key))).not.toContain("FORGED");
});

test("a run trains through a proxy that has its own path and sometimes responds with 502; no request has the secret in its URL or headers", async () => {
  const received: string[] = [];
  await trainThrough({
    path: "/box/searcher",
    change({ url, headers, body }) {
      received.push(JSON.stringify([url, headers]));
      // As nginx responds while the worker behind it restarts.
      return received.length <= 3 ? { status: 502, body: "<html>Bad Gateway</html>" } : body;
    },
  });
  expect(received.length).toBeGreaterThan(0);
  expect(received.join("")).toMatch(/\/box\/searcher\/[0-9a-f]{12}\/invocations\//);
  expect(received.join("")).not.toContain(TOKEN);
});
