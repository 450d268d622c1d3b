/**
 * @file The app of a trial, in a process of its own: the relay team's loop behind `rolloutHandler`. It sends a request again as SDKs do, up to
 * twice, after a lost connection, a 429 or an error of the server; a truncated response makes it throw. Argument: `AppArguments` as JSON.
 */
import { readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { getRequestListener } from "@hono/node-server";
import { rolloutHandler } from "../../../gpu-workers/gateway/rollout-handler.ts";
import { relayAppWith } from "../../fixtures/relay/app.ts";

export interface AppArguments {
  readonly port: number;
  readonly secret: string;
  readonly clock: {
    /** Has the milliseconds by which the store's clock is ahead: 0 at first, more after each sleep of the machine. */
    readonly file: string;
    /** By how much the app's own clock is off. */
    readonly minutesOff: number;
  };
}

const RETRIES = 2;
const PAUSE_MS = 100;
/** How long the app refuses calls after a sleep: workers that have not read the store's new time yet sign calls with the old one. */
const WAKING_MS = 10_000;

const { port, secret, clock }: AppArguments = JSON.parse(process.argv[2] ?? "");

const aheadMs = () => Number(readFileSync(clock.file, "utf8"));

const handle = rolloutHandler(relayAppWith(sendPatiently), {
  secret,
  now: () => Date.now() + clock.minutesOff * 60_000 + aheadMs(),
});

async function sendPatiently(...request: Parameters<typeof fetch>): Promise<Response> {
  for (let retries = 0; ; retries++) {
    const response = await fetch(...request).catch((error: Error) => error);
    const isFailure = response instanceof Error || response.status === 429 || response.status >= 500;
    if (isFailure && retries < RETRIES && !request[1]?.signal?.aborted) await pause(PAUSE_MS * 2 ** retries);
    else if (response instanceof Error) throw response;
    else return response;
  }
}

function isWaking(): boolean {
  return aheadMs() > 0 && Date.now() - statSync(clock.file).mtimeMs < WAKING_MS;
}

/** The machine may also have slept after a call arrived and before it was verified: then the call is late, too. */
async function respond(request: Request): Promise<Response> {
  const response = isWaking() ? undefined : await handle(request);
  const isLate = response === undefined || (response.status === 401 && isWaking());
  return isLate ? new Response("the app's machine has slept", { status: 503 }) : response;
}

createServer(getRequestListener(respond)).listen(port, "127.0.0.1");
