/**
 * @file Reverse proxies in front of endpoints, with or without TLS. They can change or answer a request and change its response. Also free
 * ports.
 */
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type IncomingHttpHeaders, request, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { fileURLToPath } from "node:url";

/** Self-signed, for 127.0.0.1. */
export const CERTIFICATE = fileURLToPath(new URL("../fixtures/tls/certificate.pem", import.meta.url));
const KEY = new URL("../fixtures/tls/key.pem", import.meta.url);

const servers: Server[] = [];

async function listening(server: Server): Promise<number> {
  servers.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

export function closeProxies(): void {
  for (const server of servers.splice(0)) server.close();
}

/** Test files that run in parallel draw from ranges of their own. */
const FIRST_PORT = 20_000 + 3000 * (Number(process.env["VITEST_POOL_ID"] ?? 0) % 4);
/** Ports already returned: until its caller listens on it, a port would seem free. */
const drawn = new Set<number>();

/** A free port below the ephemeral ports, so that the system does not assign it to anything else before it is used. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST_PORT + randomInt(3000);
    if (drawn.has(port)) continue;
    const server = createServer().listen(port, "127.0.0.1");
    const isFree = await once(server, "listening").then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    server.close();
    await once(server, "close");
    drawn.add(port);
    return port;
  }
}

export interface ProxiedRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

export interface ProxySettings {
  readonly tls?: boolean;
  /** Path prefix of the proxy, before the endpoint's path. */
  readonly path?: string;
  /** May change the headers in place; returns the body to pass on, or the response in place of the endpoint's. */
  readonly change?: (request: ProxiedRequest) => Buffer | { readonly status: number; readonly body: string };
  /** May change the endpoint's response. */
  readonly changeResponse?: (body: Buffer) => Buffer;
}

/** Starts a proxy in front of an endpoint. Returns the proxy's address. */
export async function startProxy(
  endpoint: string,
  { tls = false, path = "", change, changeResponse }: ProxySettings = {},
): Promise<string> {
  const { hostname, port } = new URL(endpoint);
  const handle: Parameters<typeof createServer>[1] = async (incoming, outgoing) => {
    const { method = "", url = "", headers } = incoming;
    const body = await buffer(incoming);
    const changed = change?.({ method, url, headers, body }) ?? body;
    if (!Buffer.isBuffer(changed)) {
      outgoing.writeHead(changed.status).end(method === "HEAD" ? undefined : changed.body);
      return;
    }
    if (headers["content-length"] !== undefined) headers["content-length"] = String(changed.length);
    const options = { hostname, port, method, path: url.slice(path.length), headers };
    const forward = request(options, async (found) => {
      const { "content-length": _length, ...rest } = found.headers;
      const bytes = changeResponse?.(await buffer(found));
      outgoing.writeHead(found.statusCode ?? 502, bytes ? rest : found.headers);
      if (bytes) outgoing.end(bytes);
      else found.pipe(outgoing);
    });
    forward.on("error", () => outgoing.writeHead(502).end("<html>Bad Gateway</html>"));
    forward.end(changed);
  };
  const secrets = () => ({ key: readFileSync(KEY), cert: readFileSync(CERTIFICATE) });
  const server = tls ? createTlsServer(secrets(), handle) : createServer(handle);
  return `http${tls ? "s" : ""}://127.0.0.1:${await listening(server)}${path}`;
}
