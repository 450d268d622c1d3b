/** @file How a worker serves and calls HTTP apps: over HTTP, or in tests without sockets. */
import { isIPv6 } from "node:net";
import type { Hono } from "hono";
import { type AppServer, serveApp } from "./server.ts";

export interface WorkerNetwork {
  /** Serves the app at `http://<host>:<port>`; port 0 takes any free one. Rejects with `cannot-listen`. */
  listen(app: Hono, host: string, port: number): Promise<AppServer>;
  /** Like the global `fetch`. */
  fetch(url: string, init: RequestInit): Promise<Response>;
}

/** The origin of a server. `host`: a name or an IP address. */
export const httpOrigin = (host: string, port: number): string => `http://${isIPv6(host) ? `[${host}]` : host}:${port}`;

export const httpNetwork: WorkerNetwork = { listen: serveApp, fetch: (url, init) => fetch(url, init) };
