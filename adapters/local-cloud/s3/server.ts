/** @file The S3 API over HTTP: authentication, addressing, and errors in S3's form. Path style only. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { VerifyRequest } from "../authentication.ts";
import { asS3Error, S3Error } from "./errors.ts";
import { route, type S3Services, send } from "./routes.ts";
import { toXml } from "./xml.ts";

export function createS3Server(services: S3Services, verify: VerifyRequest): Server {
  const server = createServer((request, response) => {
    answer(services, verify, request, response).catch((error: unknown) => sendError(request, response, error));
  });
  // An upload of weights may take longer than Node's default of five minutes.
  server.requestTimeout = 0;
  server.keepAliveTimeout = 60_000;
  return server;
}

async function answer(services: S3Services, verify: VerifyRequest, request: IncomingMessage, response: ServerResponse) {
  const { method = "", url = "", headers } = request;
  await verify({ method, url, headers });
  const [path = "", search = ""] = url.split(/\?(.*)/s);
  // `new URL` would resolve `..` in a key.
  const [, bucket = "", ...rest] = path.split("/");
  await route(services, { request, response, bucket, key: decode(rest.join("/")), query: new URLSearchParams(search) });
}

function decode(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    throw new S3Error("InvalidArgument", `the key ${path} is not valid percent-encoding`);
  }
}

function sendError(request: IncomingMessage, response: ServerResponse, thrown: unknown): void {
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  const error = asS3Error(thrown);
  const body = request.method === "HEAD" ? "" : toXml("Error", { Code: error.code, Message: error.message });
  // Reads the rest of the body: otherwise a client that is still sending would get a broken connection instead of this response.
  request.resume();
  send(response, error.status, body);
}
