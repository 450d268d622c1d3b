/**
 * @file The HTTP face of a sub-agent (design rule 3), below a path that is this process's own: who still has the URL of a worker that is
 * gone, whose port another run's has by now, is answered 404.
 *
 *     PUT    /invocations/<id>   202 accepted, now or before · 409 loading another version, Retry-After · 410 step no longer open
 *                                · 503 draining · 400 the id is not the hash of the request · 413
 *     GET    /invocations/<id>   200 the committed result's report · 202 still running after 25 s · 404 unknown (restarted: put again)
 *                                · 502 infrastructure failed, {code, message} · 503 cancelled by draining
 *     DELETE /invocations/<id>   204 cancelled
 *
 * Every call is signed (signature.ts), and so is every report; 401 says why a call is not believed. A caller that sends
 * `Prefer: wait=<seconds>` with PUT is answered as GET would, if that is soon enough: one round trip.
 */
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import { type Context, Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { parseJson } from "../../core/contracts/parse.ts";
import { InvocationRequest } from "../../core/contracts/rollout.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import { invocationId } from "../identity.ts";
import type { Log } from "../log.ts";
import type { Answer, Desk } from "./registry.ts";
import type { SignReport, VerifyCall } from "./signature.ts";

export const LONGEST_POLL_SECONDS = 25;
const MAX_BODY_BYTES = 1 << 20;

export interface InvocationServer {
  readonly port: number;
  close(): Promise<void>;
}

export interface Signatures {
  readonly verify: VerifyCall;
  readonly signReport: SignReport;
}

/** `place`: the first part of its paths. */
export function invocationApp(
  agent: string,
  place: string,
  { verify, signReport }: Signatures,
  desk: Desk,
  log: Log,
): Hono {
  const app = new Hono().basePath(`/${place}`);
  app.use("/invocations/*", bodyLimit({ maxSize: MAX_BODY_BYTES, onError: tooLarge }), async (context, next) => {
    const { method, url } = context.req;
    const { pathname, search } = new URL(url);
    const body = new Uint8Array(await context.req.arrayBuffer());
    const path = pathname.slice(`/${place}`.length) + search;
    const refusal = await verify({ method, path, body }, (name) => context.req.header(name));
    return refusal === undefined ? next() : context.text(refusal, 401);
  });

  app.put("/invocations/:id", async (context) => {
    const { id } = context.req.param();
    const request = parseJson(
      InvocationRequest,
      await context.req.text(),
      `body of invocation ${id}`,
      "event-malformed",
    );
    if (invocationId(request) !== id) return context.text("the id is not the hash of the request", 400);
    if (request.agent !== agent) return context.text(`this worker serves '${agent}'`, 400);
    const admission = await desk.put(id, request);
    if (admission === "draining") return context.text("draining", 503);
    if (admission === "loading") return context.text("loading another version", 409, { "Retry-After": "1" });
    if (admission === "step-closed") return context.text("the step is not open for this version", 410);
    const wait = /^wait=(\d+)$/.exec(context.req.header("prefer") ?? "")?.[1];
    if (!wait) return context.body(null, 202);
    return reply(context, await desk.wait(id, Math.min(Number(wait), LONGEST_POLL_SECONDS)));
  });

  app.get("/invocations/:id", async (context) => {
    const seconds = Math.min(Number(context.req.query("wait") ?? LONGEST_POLL_SECONDS) || 0, LONGEST_POLL_SECONDS);
    return reply(context, await desk.wait(context.req.param("id"), seconds));
  });

  app.delete("/invocations/:id", (context) => {
    desk.cancel(context.req.param("id"));
    return context.body(null, 204);
  });

  app.onError((error, context) => {
    if (isMgrpoError(error, "event-malformed")) return context.text(error.message, 400);
    log.error("an invocation's request failed", { path: context.req.path, error: error.message });
    return context.text("the worker failed; see its log", 500);
  });

  function reply(context: Context, answer: Answer): Response {
    if (answer.state !== "done") return noReport(answer);
    const body = JSON.stringify(answer.report);
    const signed = signReport(body, (name) => context.req.header(name));
    return new Response(body, { status: 200, headers: { ...JSON_TYPE, ...signed } });
  }
  return app;
}

const tooLarge = (context: Context) => context.text(`the request is larger than ${MAX_BODY_BYTES} bytes`, 413);

const JSON_TYPE = { "content-type": "application/json" };

function noReport(answer: Exclude<Answer, { state: "done" }>): Response {
  if (answer.state === "running") return new Response(null, { status: 202 });
  if (answer.state === "unknown") return new Response("unknown", { status: 404 });
  const { code, message } = answer.error;
  if (code === "cancelled") return new Response("draining", { status: 503 });
  if (code === "step-closed") return new Response(message, { status: 410 });
  return new Response(JSON.stringify({ code, message }), { status: 502, headers: JSON_TYPE });
}

export function serveInvocations(app: Hono, host: string, port: number): Promise<InvocationServer> {
  return new Promise((resolve, reject) => {
    const server = serve({ fetch: app.fetch, hostname: host, port }, ({ port: bound }: AddressInfo) =>
      resolve({
        port: bound,
        close: () =>
          new Promise((closed) => {
            server.close(() => closed());
            if ("closeAllConnections" in server) server.closeAllConnections();
          }),
      }),
    );
    server.once("error", (cause: NodeJS.ErrnoException) => {
      const taken = cause.code === "EADDRINUSE";
      const message = taken
        ? `port ${port} on ${host} is in use: pass another --port, or 0 for any`
        : `cannot listen on ${host}:${port}: ${cause.message}`;
      reject(new MgrpoError("port-in-use", message, { cause }));
    });
  });
}
