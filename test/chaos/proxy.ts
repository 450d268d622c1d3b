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
import type { AddressInfo, Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { type Entry, type Exchange, factsOf } from "./history.ts";
import { leaseChange } from "./leases.ts";
import { paymentOf } from "./payments.ts";
import { COST_HEADER } from "./priced-model.ts";
import { refusal } from "./refusals.ts";
import type { Channel, Fault } from "./schedule.ts";
import type { TurnBack } from "./store-clock.ts";
import { writeOf } from "./writes.ts";

export interface ProxyOptions {
  /** The process whose requests these are; for `calls`, `events`, `app` and `gateway`, the one that receives them. */
  readonly process: string;
  /** For `api`, which several processes call: the one that sent a request, by its headers. The history then has each request's exchange. */
  readonly callerOf?: (headers: IncomingMessage["headers"]) => string;
  readonly channel: Channel;
  /** The port that requests are passed on to. */
  readonly target: () => number;
  readonly faults: ReadonlyMap<number, Fault>;
  /** Milliseconds since the trial began. */
  readonly now: () => number;
  /** Milliseconds that are added to the date of each answer of the target, as if its clock were ahead. Absent: 0. */
  readonly aheadMs?: () => number;
  /** For a target that verifies the dates of requests: signs a request again, as if it had been sent `aheadMs` earlier. */
  readonly turnBack?: TurnBack;
  readonly record: (entry: Entry) => void;
  /** Called before each request, with its process. What it returns is called when the request is over. A process can die at both points. */
  readonly onRequest: (process: string) => () => void;
}

/** A request on its way. */
interface Passage extends ProxyOptions {
  readonly exchange?: { -readonly [key in keyof Exchange]: Exchange[key] };
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
  const exchangeOf = openExchanges(options.now);
  const server = createServer((incoming, outgoing) => {
    const fault = options.faults.get(requests++);
    const process = options.callerOf?.(incoming.headers) ?? options.process;
    const passage = { ...options, process, ...(options.callerOf && { exchange: exchangeOf(incoming.socket) }) };
    void handle(passage, incoming, outgoing, fault, closing.signal).catch(() => outgoing.destroy());
  });
  server.keepAliveTimeout = 60_000;
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { port: (server.address() as AddressInfo).port, close: () => closeServer(server, closing) };
}

/** Begins the exchange of each new request. When a connection is closed, only its last exchange gets a `closedAt`. */
function openExchanges(now: () => number): (socket: Socket) => NonNullable<Passage["exchange"]> {
  const last = new WeakMap<Socket, NonNullable<Passage["exchange"]>>();
  return (socket) => {
    const exchange: NonNullable<Passage["exchange"]> = { receivedAt: now() };
    if (!last.has(socket)) socket.once("close", () => Object.assign(last.get(socket) ?? {}, { closedAt: now() }));
    last.set(socket, exchange);
    return exchange;
  };
}

async function handle(
  options: Passage,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  fault: Fault | undefined,
  closing: AbortSignal,
): Promise<void> {
  const body = await bodyOf(incoming);
  const onEnd = options.onRequest(options.process);
  try {
    if (fault?.kind === "delay") await pause(fault.seconds * 1000);
    if (fault && (await withhold(options, incoming, outgoing, fault, closing))) return;
    const answers = [forward(options, incoming, body, fault)];
    if (fault?.kind === "duplicate") answers.push(forward(options, incoming, body, fault));
    if (fault?.kind === "echo") void echo(options, incoming, body, fault, closing).catch(() => {});
    const [answer] = await Promise.all(answers);
    if (fault?.kind === "late") await pause(fault.seconds * 1000);
    if (options.exchange) options.exchange.deliveredAt = options.now();
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
  options: Passage,
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
    ...(options.exchange && { exchange: options.exchange }),
  });
  if (refused) outgoing.writeHead(refused.status, refused.headers).end(method === "HEAD" ? undefined : refused.body);
  else if (kind === "drop") drop(options.channel, outgoing);
  return true;
}

/** A dropped event is lost for good, since the cloud gets a success; any other dropped request breaks its connection. */
function drop(channel: Channel, outgoing: ServerResponse): void {
  if (channel === "events") outgoing.writeHead(200).end();
  else outgoing.destroy();
}

function deliver({ status, headers, body }: Answer, outgoing: ServerResponse, fault: Fault | undefined): void {
  // An answer with almost no body, as to a PUT or HEAD, cannot be cut in half: the caller gets nothing.
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
  { process, channel, target, now, aheadMs = () => 0, turnBack, record, exchange }: Passage,
  { method = "GET", url: path = "/", headers: received }: IncomingMessage,
  body: Buffer,
  fault: Fault | undefined,
): Promise<Answer> {
  const sentAt = now();
  const request = { channel, method, path, headers: received, body };
  const write = writeOf(request);
  const facts = write ? factsOf(write) : [];
  const payment = write && paymentOf(write);
  const entry = { sentAt, process, channel, method, path, fault: fault?.kind, ...(exchange && { exchange }) };
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
    const paid = tookEffect && payment && { payment };
    const took = { facts: tookEffect ? facts : [], ...(lease && { lease }), ...paid };
    record({ ...entry, answeredAt: now(), status: answer.status, ...took, ...priceOf(answer) });
    return answer;
  } catch (error) {
    // The target died during the request, perhaps after it took effect.
    const lease = write && leaseChange(write, Number.NaN);
    const paid = payment && { possiblePayment: payment };
    const may = { possible: facts, ...(lease && { possibleLease: lease }), ...paid };
    record({ ...entry, answeredAt: now(), status: 0, facts: [], ...may });
    throw error;
  }
}

/** The headers that the target would send if its clock were ahead. */
function dated(headers: Answer["headers"], aheadMs: number): Answer["headers"] {
  if (aheadMs === 0 || headers.date === undefined) return headers;
  return { ...headers, date: new Date(Date.parse(headers.date) + aheadMs).toUTCString() };
}

/** The judge and the priced searcher's API state the cost of an answer in a header. */
function priceOf({ headers }: Answer): Pick<Entry, "verdictMicroUsd" | "answerMicroUsd"> {
  const [verdict, answer] = [headers["x-micro-usd"], headers[COST_HEADER]];
  if (typeof verdict === "string") return { verdictMicroUsd: Number(verdict) };
  return typeof answer === "string" ? { answerMicroUsd: Number(answer) } : {};
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
