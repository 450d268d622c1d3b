/**
 * @file The HTTP interface of a sub-agent. All paths are under a random prefix of this process, so a caller with the URL of a dead worker
 * gets 404 from the process that now has its port.
 *
 *     PUT    /invocations/<id>   202 accepted, now or earlier · 409 loading another version, Retry-After · 410 the step is not open
 *                                · 503 draining · 400 malformed, for another agent, or the id is not the request's hash · 413 too large
 *     GET    /invocations/<id>   200 the report of the committed result · 202 still running after `?wait=` seconds (at most 25)
 *                                · 404 unknown (restarted: put again) · 410 the step is not open · 502 failed, {code, message}
 *                                · 503 canceled, by DELETE or by draining
 *     DELETE /invocations/<id>   204 canceled, or nothing to cancel
 *
 * Every call and every report is signed (signature.ts); a refused call gets 401 or 409, with the reason. A PUT with `Prefer: wait=<seconds>` is answered
 * like a GET after at most that long: one round trip if the result comes in time.
 */
import type { AddressInfo } from "node:net";
import { createAdaptorServer } from "@hono/node-server";
import { type Context, Hono, type MiddlewareHandler } from "hono";
import { bodyLimit } from "hono/body-limit";
import { REQUEST_BYTES } from "../../core/contracts/bounds.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import { InvocationRequest } from "../../core/contracts/rollout.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import { invocationId } from "../identity.ts";
import { type Log, stackOf } from "../log.ts";
import type { InvocationRegistry, InvocationStatus } from "./registry.ts";
import type { SignReport, VerifyCall } from "./signature.ts";

export const LONGEST_POLL_SECONDS = 25;

export interface AppServer {
  readonly port: number;
  close(): Promise<void>;
}

export interface Signatures {
  readonly verify: VerifyCall;
  readonly signReport: SignReport;
}

/** The app of one agent, under `/<prefix>`. */
export function invocationApp(
  agent: string,
  prefix: string,
  signatures: Signatures,
  registry: InvocationRegistry,
  log: Log,
): Hono {
  const app = new Hono().basePath(`/${prefix}`);
  app.use(
    "/invocations/*",
    bodyLimit({ maxSize: REQUEST_BYTES, onError: tooLarge(REQUEST_BYTES) }),
    requireSignature(prefix, signatures.verify),
  );

  app.put("/invocations/:id", async (context) => {
    const { id } = context.req.param();
    const body = await context.req.text();
    const request = parseJson(InvocationRequest, body, `body of invocation ${id}`, "event-malformed");
    if (invocationId(request) !== id) return context.text("the id is not the hash of the request", 400);
    if (request.agent !== agent) return context.text(`this worker serves '${agent}'`, 400);
    const putAt = performance.now();
    const result = await registry.put(id, request);
    if (result === "draining") return context.text("draining", 503);
    if (result === "loading") return context.text("loading another version", 409, { "Retry-After": "1" });
    if (result === "step-closed") return context.text("the step is not open for this version", 410);
    const wait = /^wait=(\d+)$/.exec(context.req.header("prefer") ?? "")?.[1];
    if (!wait) return context.body(null, 202);
    // A slow store delays `put`, which may read the step, and the caller takes a late answer to mean that the worker died.
    const seconds = Math.min(Number(wait), LONGEST_POLL_SECONDS) - (performance.now() - putAt) / 1000;
    const status = await registry.wait(id, Math.max(0, seconds));
    return reply(context, status, signatures.signReport);
  });

  app.get("/invocations/:id", async (context) => {
    const seconds = Math.min(Number(context.req.query("wait") ?? LONGEST_POLL_SECONDS) || 0, LONGEST_POLL_SECONDS);
    return reply(context, await registry.wait(context.req.param("id"), seconds), signatures.signReport);
  });

  app.delete("/invocations/:id", (context) => {
    registry.cancel(context.req.param("id"));
    return context.body(null, 204);
  });

  app.onError((error, context) => {
    if (isMgrpoError(error, "event-malformed")) return context.text(error.message, 400);
    const text = isMgrpoError(error) ? error.message : stackOf(error);
    log.error("invocation request failed", { path: context.req.path, error: text });
    return context.text("the worker failed; see its log", 500);
  });
  return app;
}

/** The signature covers the path without the prefix. */
export function requireSignature(prefix: string, verify: VerifyCall): MiddlewareHandler {
  return async (context, next) => {
    const { method, url } = context.req;
    const { pathname, search } = new URL(url);
    const body = new Uint8Array(await context.req.arrayBuffer());
    const path = pathname.slice(`/${prefix}`.length) + search;
    const refusal = await verify({ method, path, body }, (name) => context.req.header(name));
    return refusal ? context.text(refusal.reason, refusal.status) : next();
  };
}

function reply(context: Context, status: InvocationStatus, signReport: SignReport): Response {
  if (status.state !== "done") return withoutReport(status);
  const body = JSON.stringify(status.report);
  const signed = signReport(body, (name) => context.req.header(name));
  return new Response(body, { status: 200, headers: { ...JSON_TYPE, ...signed } });
}

export const tooLarge = (bytes: number) => (context: Context) =>
  context.text(`the request is larger than ${bytes} bytes`, 413);

const JSON_TYPE = { "content-type": "application/json" };

export function withoutReport(status: Exclude<InvocationStatus, { state: "done" }>): Response {
  if (status.state === "running") return new Response(null, { status: 202 });
  if (status.state === "unknown") return new Response("unknown", { status: 404 });
  const { code, message } = status.error;
  if (code === "canceled") return new Response("canceled", { status: 503 });
  if (code === "step-closed") return new Response(message, { status: 410 });
  return new Response(JSON.stringify({ code, message }), { status: 502, headers: JSON_TYPE });
}

/** Connections that may wait while the process is busy. Node's default, 511, resets some of a thousand that arrive at once. */
const BACKLOG = 4096;

/** The adaptor's requests cannot be passed to `new Request`, as `bodyLimit` does with one whose body has no Content-Length. */
function platformRequest({ url, method, headers, body, signal }: Request): Request {
  return new Request(url, { method, headers, body, signal, duplex: "half" });
}

/** Rejects with `cannot-listen`. */
export function serveApp(app: Hono, host: string, port: number): Promise<AppServer> {
  return new Promise((resolve, reject) => {
    // Apps and tools run in this process: for them, Request and Response stay the platform's.
    const fetch = (request: Request, bindings: object) => app.fetch(platformRequest(request), bindings);
    const server = createAdaptorServer({ fetch, overrideGlobalObjects: false });
    server.listen({ host, port, backlog: BACKLOG }, () =>
      resolve({
        port: (server.address() as AddressInfo).port,
        close: () =>
          new Promise((closed) => {
            server.close(() => closed());
            if ("closeAllConnections" in server) server.closeAllConnections();
          }),
      }),
    );
    server.once("error", (cause: NodeJS.ErrnoException) =>
      reject(new MgrpoError("cannot-listen", listenFault(host, port, cause), { cause })),
    );
  });
}

function listenFault(host: string, port: number, { code = "", message }: NodeJS.ErrnoException): string {
  if (["EADDRNOTAVAIL", "ENOTFOUND"].includes(code))
    return `${host} is not an address of this machine: pass a --host that is one`;
  const fault =
    code === "EADDRINUSE" ? `port ${port} on ${host} is in use` : `cannot listen on ${host}:${port} (${message})`;
  return `${fault}: pass another --port, or 0 for any free one`;
}
