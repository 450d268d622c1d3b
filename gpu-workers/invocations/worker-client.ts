/**
 * @file Signed HTTP calls to the workers of sub-agents, and what their responses mean: a report, a failure that a retry may cure
 * (`TransientFailure`), or an error that the caller rethrows (`MgrpoError`).
 */

import * as z from "zod";
import { withAnySignal } from "../../core/any-signal.ts";
import { jsonOrUndefined, parseJson } from "../../core/contracts/parse.ts";
import type { WorkerRecord } from "../../core/contracts/records.ts";
import { InvocationReport } from "../../core/contracts/rollout.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import { readAtMost } from "../../core/read-at-most.ts";
import type { Log } from "../log.ts";
import type { WorkerNetwork } from "./network.ts";
import { LONGEST_POLL_SECONDS } from "./server.ts";
import type { SignCall, SignedCall } from "./signature.ts";

/** The server answers a poll within LONGEST_POLL_SECONDS; a worker that is silent for this long counts as dead. */
const CALL_TIMEOUT_SECONDS = LONGEST_POLL_SECONDS + 10;
const CANCEL_TIMEOUT_SECONDS = 1;
/** Far more than any response has: a report holds the text of one agent's answer, and a reply one turn with the texts of its tokens. */
const MAX_RESPONSE_BYTES = 64 << 20;

/** Codes of OpenSSL and Node.js for a certificate that is not trusted. */
const UNTRUSTED = /CERT|SELF_SIGNED|UNABLE_TO_(VERIFY|GET_ISSUER)/;

/** Codes of OpenSSL and Node.js for any other failure of TLS, such as a server that speaks plain HTTP. */
const NO_TLS = /^ERR_(TLS|SSL)|^EPROTO$/;

/** The message of Node's fetch, which has no code, for a port that the Fetch standard blocks, such as 6000: no attempt can connect. */
const BLOCKED_PORT = "bad port";

/** Codes of Node.js for a connection that was never made. */
const NEVER_CONNECTED = [
  "ECONNREFUSED",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EAI_AGAIN",
  "UND_ERR_CONNECT_TIMEOUT",
];

/** Codes of a sub-agent's failures that the caller gets unchanged. Any other becomes `worker-unavailable`. */
const FORWARDED_CODES = [
  "deadline",
  "tool-backend",
  "endpoint-unavailable",
  "prefix-drift",
  "session-lost",
  "request-refused",
  "config-invalid",
  "run-halted",
] as const;

/** Codes of failures that another attempt would meet again. */
const NON_RETRYABLE_CODES: readonly string[] = ["request-refused", "config-invalid", "run-halted"];

/** Statuses of a result, and of a limit that an agent reached. */
const REPORTS = [200, 422];

const ReportedFailure = z.object({ code: z.string(), message: z.string() });

/** A failure that a retry may cure. */
export class TransientFailure extends Error {
  /** The worker failed to respond properly, or is draining: other workers are tried first. */
  readonly isWorkerAtFault: boolean;
  /** Counts as the worker's death: the connection broke or timed out while it may have been working on the request. */
  readonly workerDied: boolean;
  /** The worker has no record of the work: it was restarted, or has canceled and dropped the work. */
  readonly isWorkUnknown: boolean;

  constructor(message: string, { isWorkerAtFault = false, workerDied = false, isWorkUnknown = false } = {}) {
    super(message);
    this.isWorkerAtFault = isWorkerAtFault;
    this.workerDied = workerDied;
    this.isWorkUnknown = isWorkUnknown;
  }
}

export interface WorkerRequest {
  /** Below the worker's URL. */
  readonly path: string;
  readonly method: "PUT" | "POST" | "GET" | "DELETE";
  readonly body?: string;
  readonly headers?: Record<string, string>;
  readonly signal: AbortSignal;
}

export interface WorkerResponse {
  readonly status: number;
  readonly text: string;
}

interface CheckedResponse extends WorkerResponse {
  /** A report without a valid signature. Other responses are not signed (signature.ts). */
  readonly isForgedReport: boolean;
  /** The same request, signed again, may be accepted. */
  readonly isRefusedAsOld: boolean;
}

export class WorkerClient {
  readonly #sign: SignCall;
  readonly #network: Pick<WorkerNetwork, "fetch">;
  readonly #log: Log;

  constructor(sign: SignCall, network: Pick<WorkerNetwork, "fetch">, log: Log) {
    this.#sign = sign;
    this.#network = network;
    this.#log = log;
  }

  /** Puts the invocation and polls until its report is available. `body`: the request's canonical JSON. */
  async invoke(worker: WorkerRecord, id: string, body: string, signal: AbortSignal): Promise<InvocationReport> {
    const headers = { "content-type": "application/json", prefer: `wait=${LONGEST_POLL_SECONDS}` };
    const path = `/invocations/${id}`;
    let response = await this.call(worker, { path, method: "PUT", body, headers, signal });
    while (response.status === 202) response = await this.call(worker, { path, method: "GET", signal });
    if (response.status !== 200) throw responseFailure(worker, response);
    return parseJson(InvocationReport, response.text, `response of worker '${worker.worker}'`);
  }

  /** Best effort: returns at once, and a failure is only logged. */
  cancel(worker: WorkerRecord, id: string): void {
    this.delete(worker, `/invocations/${id}`);
  }

  /** Best effort: returns at once, and a failure is only logged. */
  delete(worker: WorkerRecord, path: string): void {
    const signal = AbortSignal.timeout(CANCEL_TIMEOUT_SECONDS * 1000);
    const request: WorkerRequest = { path, method: "DELETE", signal };
    this.#signed(request)
      .then((signed) => this.#send(worker, request, signed))
      .catch((error: unknown) => this.#log.info("canceled work may still be running", { path, error: String(error) }));
  }

  /**
   * The response, whatever its status; a report only with a valid signature. Rejects with `TransientFailure`, also after a 401 to a call that
   * is old, or with `config-invalid` if TLS fails or the port is blocked. Errors of the store's clock, and of an aborted signal, are passed on.
   */
  async call(worker: WorkerRecord, request: WorkerRequest): Promise<WorkerResponse> {
    const response = await this.#exchange(worker, request).catch((cause: unknown) => {
      throw connectionFailure(worker, request.signal, cause);
    });
    if (response.isRefusedAsOld)
      throw new TransientFailure(`worker '${worker.worker}' refused a call that was on its way for too long`);
    if (!response.isForgedReport) return response;
    this.#log.warn("discarded a report without a valid signature", { path: request.path, worker: worker.worker });
    throw unusable(worker, "sent a report without a valid signature");
  }

  async #exchange(worker: WorkerRecord, request: WorkerRequest): Promise<CheckedResponse> {
    const signed = await this.#signed(request);
    // Only now: signing may wait for the store, which says nothing about the worker.
    const timeout = AbortSignal.timeout(CALL_TIMEOUT_SECONDS * 1000);
    return await withAnySignal([request.signal, timeout], async (signal) => {
      const response = await this.#send(worker, { ...request, signal }, signed);
      const { status, headers } = response;
      const bytes = await readAtMost(response.body, MAX_RESPONSE_BYTES);
      if (!bytes) throw unusable(worker, `sent a response of more than ${MAX_RESPONSE_BYTES} bytes`);
      const text = new TextDecoder().decode(bytes);
      const isForgedReport = REPORTS.includes(status) && !signed.isAuthenticReport(text, (name) => headers.get(name));
      return { status, text, isForgedReport, isRefusedAsOld: status === 401 && (await signed.isOld()) };
    });
  }

  /** Signs one call: a signature is valid only once. */
  #signed({ method, path, body = "" }: WorkerRequest): Promise<SignedCall> {
    return this.#sign({ method, path, body });
  }

  #send(
    worker: WorkerRecord,
    { path, method, body = "", headers = {}, signal }: WorkerRequest,
    signed: SignedCall,
  ): Promise<Response> {
    return this.#network.fetch(`${worker.url}${path}`, {
      method,
      headers: { ...headers, ...signed.headers },
      signal,
      ...(body !== "" && { body }),
    });
  }
}

const unusable = ({ worker }: WorkerRecord, why: string, workerDied = false) =>
  new TransientFailure(`worker '${worker}' ${why}`, { isWorkerAtFault: true, workerDied });

function connectionFailure(worker: WorkerRecord, signal: AbortSignal, cause: unknown): unknown {
  if (signal.aborted || isMgrpoError(cause) || cause instanceof TransientFailure) return cause;
  // Node's fetch rejects with an error whose cause has the code, or, at the time limit, with a TimeoutError without a cause.
  const { name, cause: reason } = cause as { name?: unknown; cause?: { code?: unknown; message?: unknown } };
  const code = String(reason?.code ?? name);
  if (reason?.message === BLOCKED_PORT) return onBlockedPort(worker);
  if (UNTRUSTED.test(code)) return untrusted(worker, code);
  if (NO_TLS.test(code)) return withoutTls(worker, code);
  // Without a connection, nothing reached the worker, so this call cannot have killed it. Any other failure may be a crash midway.
  return unusable(worker, `does not answer (${code})`, !NEVER_CONNECTED.includes(code));
}

/** What a response other than the wanted one means. */
export function responseFailure(worker: WorkerRecord, { status, text }: WorkerResponse): Error {
  const name = `worker '${worker.worker}'`;
  if (status === 404) return new TransientFailure(`${name} has no record of the work`, { isWorkUnknown: true });
  if (status === 409) return new TransientFailure(`${name} refused for now (409): ${text}`);
  if (status === 503) return unusable(worker, "answered 503: it is draining, or a proxy cannot reach it");
  if (status === 410) return new MgrpoError("step-closed", `${name}: ${text}`);
  const reported = status === 502 ? reportedFailure(text) : undefined;
  if (reported) return reported;
  if (status === 401 || status === 400 || status === 413) {
    const advice = status === 413 ? "" : "; do all workers have the same MGRPO_WORKER_TOKEN and release?";
    return new MgrpoError("config-invalid", `${name} refused (${status}): ${text}${advice}`);
  }
  return unusable(worker, `answered ${status}`);
}

function untrusted({ worker, url }: WorkerRecord, code: string): MgrpoError {
  const remedy =
    code === "CERT_HAS_EXPIRED"
      ? "renew it"
      : "name the authority's file in NODE_EXTRA_CA_CERTS, or fix the worker's --url";
  return new MgrpoError(
    "config-invalid",
    `worker '${worker}' at ${url}: its certificate is not trusted here (${code}); ${remedy}`,
  );
}

function withoutTls({ worker, url }: WorkerRecord, code: string): MgrpoError {
  return new MgrpoError(
    "config-invalid",
    `worker '${worker}' at ${url}: TLS fails (${code}); fix the worker's --url, or the proxy in front of it`,
  );
}

const onBlockedPort = ({ worker, url }: WorkerRecord) =>
  new MgrpoError(
    "config-invalid",
    `worker '${worker}' at ${url}: HTTP clients refuse this port, which belongs to another protocol; start the worker with another --port or --url`,
  );

/** The failure that the sub-agent's worker reports; undefined when a proxy answered instead. */
function reportedFailure(text: string): MgrpoError | undefined {
  const failure = ReportedFailure.safeParse(jsonOrUndefined(text));
  if (!failure.success) return undefined;
  const { code, message } = failure.data;
  const known = FORWARDED_CODES.find((forwarded) => forwarded === code) ?? "worker-unavailable";
  return new MgrpoError(known, `the sub-agent's worker: ${message}`, {
    retryable: !NON_RETRYABLE_CODES.includes(known),
  });
}
