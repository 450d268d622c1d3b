/** @file The S3 API over HTTP: who may call, what is addressed, and errors as S3 tells them. Path style only. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { VerifySignature } from "../signature.ts";
import { asS3Error, S3Error } from "./errors.ts";
import { type S3Services, route, send } from "./routes.ts";
import { toXml } from "./xml.ts";

export function createS3Server(routes: S3Services, verify: VerifySignature): Server {
  const server = createServer((request, response) => {
    answer(routes, verify, request, response).catch((error: unknown) => refuse(request, response, error));
  });
  // Weights may take longer than Node's five minutes.
  server.requestTimeout = 0;
  server.keepAliveTimeout = 60_000;
  return server;
}

async function answer(routes: S3Services, verify: VerifySignature, request: IncomingMessage, response: ServerResponse) {
  const { method = "", url = "", headers } = request;
  await verify({ method, url, headers });
  const [path = "", search = ""] = url.split(/\?(.*)/s);
  // Not `new URL`, which would take `..` in a key for a step up.
  const [, bucket = "", ...rest] = path.split("/");
  await route(routes, { request, response, bucket, key: decoded(rest.join("/")), query: new URLSearchParams(search) });
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    throw new S3Error("InvalidArgument", `${path} is not a key`);
  }
}

function refuse(request: IncomingMessage, response: ServerResponse, thrown: unknown): void {
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  const error = asS3Error(thrown);
  const body = request.method === "HEAD" ? "" : toXml("Error", { Code: error.code, Message: error.message });
  // The rest of the body is read all the same: a client that is still sending would see a broken connection, not this answer.
  request.resume();
  send(response, error.status, body);
}
