/** @file What a worker's silence, connection and TLS failures, refusals, reported failures and oversized responses mean to its caller. */
import { expect, onTestFinished, test, vi } from "vitest";
import type { WorkerRecord } from "../../core/contracts/records.ts";
import { openCallSigner } from "../../gpu-workers/invocations/signature.ts";
import { responseFailure, TransientFailure, WorkerClient } from "../../gpu-workers/invocations/worker-client.ts";
import { createLog } from "../../gpu-workers/log.ts";

const worker = { worker: "w1", url: "http://w1" } as WorkerRecord;

/** A call whose `fetch` rejects with the failure. */
function callThatFails(failure: Error): Promise<unknown> {
  const client = new WorkerClient(
    openCallSigner("the same secret", { storeTime: async () => 0 }),
    { fetch: () => Promise.reject(failure) },
    createLog(() => {}),
  );
  return client.call(worker, { path: "/invocations/a", method: "GET", signal: new AbortController().signal });
}

test("a worker that is silent until the time limit counts as dead, and the error names the timeout", async () => {
  const timeout = Object.assign(new Error("The operation was aborted due to timeout"), { name: "TimeoutError" });
  await expect(callThatFails(timeout)).rejects.toMatchObject({
    ...{ isWorkerAtFault: true, workerDied: true },
    message: "worker 'w1' does not answer (TimeoutError)",
  });
});

test("the time limit of a call starts once it is signed: a slow store is not the worker's silence", async () => {
  const limit = vi.spyOn(AbortSignal, "timeout");
  onTestFinished(() => limit.mockRestore());
  let answerTime: (time: number) => void = () => {};
  const storeTime = () => new Promise<number>((resolve) => (answerTime = resolve));
  const client = new WorkerClient(
    openCallSigner("the same secret", { storeTime }),
    { fetch: async () => new Response(null, { status: 202 }) },
    createLog(() => {}),
  );
  const called = client.call(worker, { path: "/invocations/a", method: "GET", signal: new AbortController().signal });
  expect(limit).not.toHaveBeenCalled();
  answerTime(0);
  expect(await called).toMatchObject({ status: 202 });
  expect(limit).toHaveBeenCalledOnce();
});

test.each([
  ["ECONNREFUSED", false],
  ["EHOSTUNREACH", false],
  ["ENOTFOUND", false],
  ["UND_ERR_CONNECT_TIMEOUT", false],
  ["ECONNRESET", true],
])("after %s, the invocation may have killed the worker: %s", async (code, workerDied) => {
  const failure = new TypeError("fetch failed", { cause: Object.assign(new Error(code), { code }) });
  await expect(callThatFails(failure)).rejects.toMatchObject({
    ...{ isWorkerAtFault: true, workerDied },
    message: `worker 'w1' does not answer (${code})`,
  });
});

test.each([
  ["eight hours", 8 * 3600, { message: "worker 'w1' refused a call that was on its way for too long" }],
  ["a second", 1, { code: "config-invalid" }],
])(
  "a 401 that arrives %s after the call was signed: only a call that is old by then may be retried",
  async (_when, seconds, expected) => {
    let now = 0;
    const client = new WorkerClient(
      openCallSigner("the same secret", { storeTime: async () => now }),
      {
        fetch: async () => {
          now += seconds * 1000;
          return new Response("its time is off the server's clock", { status: 401 });
        },
      },
      createLog(() => {}),
    );
    const invoked = client.invoke(worker, "a", "{}", new AbortController().signal);
    await expect(invoked).rejects.toMatchObject(expected);
  },
);

test.each([
  ["CERT_HAS_EXPIRED", /; renew it$/],
  ["DEPTH_ZERO_SELF_SIGNED_CERT", /NODE_EXTRA_CA_CERTS/],
])("if a certificate is not trusted because of %s, the error names the remedy", async (code, remedy) => {
  const failure = new TypeError("fetch failed", { cause: Object.assign(new Error(code), { code }) });
  await expect(callThatFails(failure)).rejects.toMatchObject({
    code: "config-invalid",
    message: expect.stringMatching(remedy),
  });
});

test.each(["ERR_SSL_WRONG_VERSION_NUMBER", "EPROTO"])("if TLS fails with %s, the error says so", async (code) => {
  const failure = new TypeError("fetch failed", { cause: Object.assign(new Error(code), { code }) });
  await expect(callThatFails(failure)).rejects.toMatchObject({
    code: "config-invalid",
    message: `worker 'w1' at http://w1: TLS fails (${code}); fix the worker's --url, or the proxy in front of it`,
  });
});

test("a port that fetch blocks is reported as such, not as the death of the worker, which no call reaches", async () => {
  const failure = await fetch("http://127.0.0.1:6000").catch((error: Error) => error);
  await expect(callThatFails(failure as Error)).rejects.toMatchObject({
    code: "config-invalid",
    message: expect.stringMatching(/^worker 'w1' at http:\/\/w1: HTTP clients refuse this port/),
  });
});

test.each<[number, string, object]>([
  [404, "unknown", { isWorkerAtFault: false, isWorkUnknown: true }],
  [409, "loading another version", { isWorkerAtFault: false, isWorkUnknown: false }],
  [503, "draining", { isWorkerAtFault: true, workerDied: false }],
  [502, "<html>Bad Gateway</html>", { isWorkerAtFault: true, workerDied: false }],
  [502, '{"code":"tool-backend","message":"HTTP 503"}', { code: "tool-backend", retryable: true }],
  [502, '{"code":"of a later release","message":"x"}', { code: "worker-unavailable", retryable: true }],
  [410, "the step is not open", { code: "step-closed" }],
])(
  "an answer with status %i and %j means that the caller retries, retries elsewhere, or gives up",
  (status, text, meaning) => {
    const failure = responseFailure(worker, { status, text });
    expect(failure).toMatchObject(meaning);
    expect(failure instanceof TransientFailure).toBe(!("code" in meaning));
  },
);

test("an error asks about the token and the release only where they can be the cause", () => {
  const messageOf = (status: number) => responseFailure(worker, { status, text: "why" }).message;
  for (const status of [400, 401])
    expect(messageOf(status)).toMatch(/: why; do all workers have the same MGRPO_WORKER_TOKEN and release\?$/);
  expect(messageOf(413)).toBe("worker 'w1' refused (413): why");
});

test("a sub-agent's faulty config is reported as `config-invalid` and is not retryable, since every attempt would fail", () => {
  const text = JSON.stringify({ code: "config-invalid", message: "remove the setting 'thinking'" });
  expect(responseFailure(worker, { status: 502, text })).toMatchObject({
    ...{ code: "config-invalid", retryable: false },
    message: "the sub-agent's worker: remove the setting 'thinking'",
  });
});

test("a response of more than 64 MiB is the worker's fault, and is not read further", async () => {
  const chunk = new Uint8Array(1 << 20);
  let sent = 0;
  const endless = new ReadableStream<Uint8Array>({
    pull(controller) {
      sent += 1;
      controller.enqueue(chunk);
    },
  });
  const client = new WorkerClient(
    openCallSigner("the same secret", { storeTime: async () => 0 }),
    { fetch: async () => new Response(endless) },
    createLog(() => {}),
  );
  const called = client.call(worker, { path: "/invocations/a", method: "GET", signal: new AbortController().signal });
  await expect(called).rejects.toMatchObject({
    ...{ isWorkerAtFault: true, workerDied: false },
    message: "worker 'w1' sent a response of more than 67108864 bytes",
  });
  expect(sent).toBeLessThan(70);
});
