/** @file How invocations travel between workers: over HTTP, or within one process through a stand-in for it. */
import type { Hono } from "hono";
import { type InvocationServer, serveInvocations } from "./server.ts";

export interface WorkerNetwork {
  /** Serves the app at `http://<host>:<port>`; port 0 takes any free one. Rejects with `port-in-use`. */
  listen(app: Hono, host: string, port: number): Promise<InvocationServer>;
  /** Like the global `fetch`. */
  fetch(url: string, init: RequestInit): Promise<Response>;
}

export const httpNetwork: WorkerNetwork = { listen: serveInvocations, fetch: (url, init) => fetch(url, init) };
