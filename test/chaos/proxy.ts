/**
 * @file A proxy in front of one channel of one process. It does to the n-th request what the schedule says, and records every request, even
 * one that it keeps from its target or whose target dies. A request that is passed on runs to its end, whatever becomes of its
 * caller, as on a real network.
 *
 *     caller ──> fault before ──> target ──> history ──> fault after ──> caller
 */
import { once, setMaxListeners } from "node:events";
import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { type Entry, factsOf } from "./history.ts";
import { leaseChange } from "./leases.ts";
import { refusal } from "./refusals.ts";
import type { Channel, Fault } from "./schedule.ts";
import type { TurnBack } from "./store-clock.ts";
import { writeOf } from "./writes.ts";

export interface ProxyOptions {
  /** The process whose requests these are; for `calls`, `events`, `app` and `gateway`, the one that receives them. */
  readonly process: string;
  readonly channel: Channel;
  /** The port that requests are passed on to. */
  readonly target: () => number;
  readonly faults: ReadonlyMap<number, Fault>;
  /** Milliseconds since the trial began. */
  readonly now: () => number;
  /** Milliseconds that are added to the date of each answer of the target, as if its clock were ahead. Absent: 0. */
  readonly aheadMs?: () => number;
  /** If the target verifies the dates of requests: turns them back by as much. */
  readonly turnBack?: TurnBack;
  readonly record: (entry: Entry) => void;
  /** Called before each request. What it returns is called when the request is over. A process can die at both points. */
  readonly onRequest: () => () => void;
}

export interface FaultProxy {
  readonly port: number;
  close(): Promise<void>;
}

interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
}

export async function openProxy(options: ProxyOptions): Promise<FaultProxy> {
  let requests = 0;
  const closing = new AbortController();
  // Every request that hangs or is echoed adds a listener.
  setMaxListeners(0, closing.signal);
  const server = createServer((incoming, outgoing) => {
    const fault = options.faults.get(requests++);
    void handle(options, incoming, outgoing, fault, closing.signal).catch(() => outgoing.destroy());
  });
  server.keepAliveTimeout = 60_000;
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { port: (server.address() as AddressInfo).port, close: () => closeServer(server, closing) };
}

async function handle(
  options: ProxyOptions,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  fault: Fault | undefined,
  closing: AbortSignal,
): Promise<void> {
  const body = await bodyOf(incoming);
  const onEnd = options.onRequest();
  try {
    if (fault?.kind === "delay") await pause(fault.seconds * 1000);
    if (fault && (await withhold(options, incoming, outgoing, fault, closing))) return;
    const answers = [forward(options, incoming, body, fault)];
    if (fault?.kind === "duplicate") answers.push(forward(options, incoming, body, fault));
    if (fault?.kind === "echo") void echo(options, incoming, body, fault, closing).catch(() => {});
    const [answer] = await Promise.all(answers);
    if (fault?.kind === "late") await pause(fault.seconds * 1000);
    if (answer) deliver(answer, outgoing, fault);
  } finally {
    onEnd();
  }
}

/** The same request again: nobody waits for its answer. Rejects if its target is gone by then, or the proxy is closed. */
async function echo(
  options: ProxyOptions,
  incoming: IncomingMessage,
  body: Buffer,
  fault: Fault,
  signal: AbortSignal,
): Promise<void> {
  await pause(fault.seconds * 1000, undefined, { signal });
  await forward(options, incoming, body, fault);
}

/** False: the request is to be passed on. One that hangs is withheld until its caller gives up, or the proxy is closed. */
async function withhold(
  options: ProxyOptions,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  { kind }: Fault,
  closing: AbortSignal,
): Promise<boolean> {
  const refused = refusal(options.channel, kind);
  if (!refused && kind !== "hang" && kind !== "drop") return false;
  const { method = "GET", url: path = "/" } = incoming;
  const sentAt = options.now();
  if (kind === "hang" && !outgoing.destroyed) await once(outgoing, "close", { signal: closing }).catch(() => {});
  options.record({
    sentAt,
    answeredAt: options.now(),
    process: options.process,
    channel: options.channel,
    method,
    path,
    fault: kind,
    status: refused?.status ?? 0,
    facts: [],
  });
  if (refused) outgoing.writeHead(refused.status, refused.headers).end(method === "HEAD" ? undefined : refused.body);
  else if (kind === "drop") drop(options.channel, outgoing);
  return true;
}

/** A dropped event is gone; any other dropped request breaks its connection. */
function drop(channel: Channel, outgoing: ServerResponse): void {
  if (channel === "events") outgoing.writeHead(200).end();
  else outgoing.destroy();
}

function deliver({ status, headers, body }: Answer, outgoing: ServerResponse, fault: Fault | undefined): void {
  // Of an answer without a body, as to a PUT or HEAD, there is nothing to cut but the head.
  if (fault?.kind === "lose" || (fault?.kind === "cut" && body.length < 2)) {
    outgoing.destroy();
    return;
  }
  outgoing.writeHead(status, headers);
  if (fault?.kind === "cut") {
    outgoing.write(body.subarray(0, body.length >> 1), () => outgoing.destroy());
    return;
  }
  outgoing.end(body);
}

async function forward(
  { process, channel, target, now, aheadMs = () => 0, turnBack, record }: ProxyOptions,
  { method = "GET", url: path = "/", headers: received }: IncomingMessage,
  body: Buffer,
  fault: Fault | undefined,
): Promise<Answer> {
  const sentAt = now();
  const request = { channel, method, path, headers: received, body };
  const write = writeOf(request);
  const facts = write ? factsOf(write) : [];
  const entry = { sentAt, process, channel, method, path, fault: fault?.kind };
  try {
    const headers = turnBack ? await turnBack(request, aheadMs()) : received;
    const sent = httpRequest({ host: "127.0.0.1", port: target(), method, path, headers, agent: false });
    sent.end(body);
    const [found] = (await once(sent, "response")) as [IncomingMessage];
    const answer = {
      status: found.statusCode ?? 502,
      headers: dated(found.headers, aheadMs()),
      body: await bodyOf(found),
    };
    const tookEffect = answer.status < 300;
    const lease = tookEffect && write && leaseChange(write, Date.parse(answer.headers.date ?? ""));
    const took = { facts: tookEffect ? facts : [], ...(lease && { lease }) };
    record({ ...entry, answeredAt: now(), status: answer.status, ...took, ...priceOf(answer) });
    return answer;
  } catch (error) {
    // The target died during the request, perhaps after it took effect.
    const lease = write && leaseChange(write, Number.NaN);
    const may = { possible: facts, ...(lease && { possibleLease: lease }) };
    record({ ...entry, answeredAt: now(), status: 0, facts: [], ...may });
    throw error;
  }
}

/** The headers that the target would send if its clock were ahead. */
function dated(headers: Answer["headers"], aheadMs: number): Answer["headers"] {
  if (aheadMs === 0 || headers.date === undefined) return headers;
  return { ...headers, date: new Date(Date.parse(headers.date) + aheadMs).toUTCString() };
}

/** The judge states the cost of its answer in a header. */
function priceOf({ headers }: Answer): Pick<Entry, "verdictMicroUsd"> {
  const price = headers["x-micro-usd"];
  return typeof price === "string" ? { verdictMicroUsd: Number(price) } : {};
}

async function bodyOf(incoming: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of incoming) pieces.push(piece as Buffer);
  return Buffer.concat(pieces);
}

async function closeServer(server: Server, closing: AbortController): Promise<void> {
  closing.abort();
  server.close();
  server.closeAllConnections();
  await once(server, "close");
}
