/** @file The apps of a worker over real HTTP: requests whose body has no Content-Length, and clients that disconnect. */
import { Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { httpNetwork } from "../../gpu-workers/invocations/network.ts";
import type { InvocationRegistry } from "../../gpu-workers/invocations/registry.ts";
import { type AppServer, invocationApp } from "../../gpu-workers/invocations/server.ts";
import { openCallSigner, openCallVerifier, openReportSigner } from "../../gpu-workers/invocations/signature.ts";
import { createLog } from "../../gpu-workers/log.ts";

const TOKEN = "the team's secret";
const clock = { storeTime: async () => Date.now() };
const log = createLog(() => {});

let server: AppServer;
let arrived: Promise<void>;
let aborted: Promise<void>;

const cancel = vi.fn();
const signatures = { verify: openCallVerifier(TOKEN, clock), signReport: openReportSigner(TOKEN) };

beforeEach(async () => {
  const app = new Hono();
  app.route("/", invocationApp("searcher", "worker", signatures, { cancel } as unknown as InvocationRegistry, log));
  app.post("/echo", bodyLimit({ maxSize: 10 }), async (context) => context.text(await context.req.text()));
  arrived = new Promise((arrive) => {
    aborted = new Promise((resolve) => {
      app.get("/slow", ({ req: { raw } }) => {
        raw.signal.addEventListener("abort", () => resolve());
        arrive();
        return new Promise(() => {});
      });
    });
  });
  server = await httpNetwork.listen(app, "127.0.0.1", 0);
});
afterEach(() => server.close());

const send = (path: string, init: RequestInit = {}) =>
  httpNetwork.fetch(`http://127.0.0.1:${server.port}${path}`, init);

/** Sent in chunks, as a proxy does. */
const inChunks = (text: string): RequestInit => ({ method: "POST", body: new Blob([text]).stream(), duplex: "half" });

test("a caller's DELETE, which has no body, cancels the invocation", async () => {
  const path = "/invocations/one";
  const { headers } = await openCallSigner(TOKEN, clock)({ method: "DELETE", path, body: "" });
  expect((await send(`/worker${path}`, { method: "DELETE", headers })).status).toBe(204);
  expect(cancel).toHaveBeenCalledExactlyOnceWith("one");
});

test("a chunked body is read up to the app's size limit", async () => {
  const response = await send("/echo", inChunks("ten bytes."));
  expect([response.status, await response.text()]).toEqual([200, "ten bytes."]);
  expect((await send("/echo", inChunks("eleven bytes"))).status).toBe(413);
});

test("a request is aborted when its client disconnects", async () => {
  const leaving = new AbortController();
  const response = send("/slow", { signal: leaving.signal }).catch((error: Error) => error.name);
  await arrived;
  leaving.abort();
  expect(await response).toBe("AbortError");
  await aborted;
});
