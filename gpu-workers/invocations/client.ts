/**
 * @file Delegation over HTTP. The caller chooses, by rendezvous hash, one of the live workers that serve the agent; a result that
 * lies in the store already is adopted; whatever breaks is tried again, on another worker if there is one.
 *
 *     put ──202──> poll ──200──> result           no worker, 503, unreachable   another one, or the same later; backs off
 *      ^            │  '──404: restarted──┐       409                           later
 *      '────────────┴─────────────────────┘       410                           `step-closed`: abandon
 *                                                 401, no trust in its TLS      `config-invalid`: no retry mends it
 *                                                 200 without its signature     as 503: whoever changed it, it is not heard
 *
 * Only time with a live worker, and in an open step, counts against `limits.invocationSeconds`; then `deadline`. A second worker that dies under the same
 * invocation ends it with `worker-unavailable`: the caller runs that rollout alone (poison, design rule 5).
 */
import { createHash } from "node:crypto";
import pRetry from "p-retry";
import * as z from "zod";
import { objectKeys } from "../../core/contracts/keys.ts";
import { canonicalJson, parseJson } from "../../core/contracts/parse.ts";
import type { WorkerRecord } from "../../core/contracts/records.ts";
import { InvocationReport, type InvocationRequest } from "../../core/contracts/rollout.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { Delegation } from "../../core/ports.ts";
import { timeLimitAfter } from "../limits.ts";
import type { Observer } from "../liveness/observer.ts";
import type { RunContext } from "../run-context.ts";
import { http, type Network } from "./network.ts";
import { findInvocation } from "./run-invocation.ts";
import { LONGEST_POLL_SECONDS } from "./server.ts";
import { openCallSigner } from "./signature.ts";

/** Deaths of workers under one invocation that end it. */
const MAX_DEATHS = 2;
/** A poll is answered within LONGEST_POLL_SECONDS. */
const LONGEST_ANSWER_SECONDS = LONGEST_POLL_SECONDS + 10;
/** Seconds a worker is passed over after it did not answer. */
const PASS_OVER_SECONDS = 1;

/** Codes of OpenSSL and Node.js. */
const UNTRUSTED = /CERT|SELF_SIGNED|UNABLE_TO_(VERIFY|GET_ISSUER)|^ERR_(TLS|SSL)|^EPROTO$/;

/** What a sub-agent's worker says of its own infrastructure, and the caller passes on. */
const REPORTED = ["deadline", "tool-backend", "endpoint-unavailable", "prefix-drift", "run-halted"] as const;

const Failure = z.object({ code: z.string(), message: z.string() });

/** Thrown inside, to be tried again. */
class Again extends Error {
  readonly died: boolean;
  constructor(message: string, died = false) {
    super(message);
    this.died = died;
  }
}

interface Sent {
  readonly id: string;
  readonly method: "PUT" | "GET" | "DELETE";
  readonly body?: string;
  readonly headers?: Record<string, string>;
  readonly signal: AbortSignal;
}

/** Live workers that answer invocations of an agent. */
export function serving(observer: Observer, agent: string): WorkerRecord[] {
  return observer
    .workers()
    .filter(
      (worker) =>
        worker.state === "alive" && worker.agent === agent && worker.url !== "" && worker.roles.includes("rollout"),
    );
}

export function httpDelegation(
  run: RunContext,
  observer: Observer,
  secret: string,
  network: Pick<Network, "fetch"> = http,
): Delegation {
  const { clock } = run.store;
  const sign = openCallSigner(secret, clock);
  const passedOver = new Map<string, number>();

  async function choose(id: string, agent: string): Promise<WorkerRecord> {
    await observer.look(serving(observer, agent).length === 0);
    const now = clock.monotonic();
    const there = serving(observer, agent).filter(
      ({ worker }) => (passedOver.get(worker) ?? Number.NEGATIVE_INFINITY) < now,
    );
    const [first] = there
      .map((worker) => ({ worker, rank: rank(id, worker.worker) }))
      .sort((a, b) => (a.rank < b.rank ? 1 : -1));
    if (!first) throw new Again(`no live worker serves '${agent}'`);
    return first.worker;
  }

  function passOver({ worker }: WorkerRecord, why: string, died = false): never {
    passedOver.set(worker, clock.monotonic() + PASS_OVER_SECONDS);
    throw new Again(`worker '${worker}' ${why}`, died);
  }

  /** Each attempt has a signature of its own. */
  async function send(worker: WorkerRecord, { id, method, body = "", headers = {}, signal }: Sent) {
    const path = `/invocations/${id}`;
    const signed = await sign({ method, path, body });
    // A machine that went without a word would be waited for until its sockets time out.
    const inTime = AbortSignal.any([signal, AbortSignal.timeout(LONGEST_ANSWER_SECONDS * 1000)]);
    const rest = body === "" ? {} : { body };
    const sent = { method, headers: { ...headers, ...signed.headers }, signal: inTime, ...rest };
    return { signed, response: await network.fetch(`${worker.url}${path}`, sent) };
  }

  async function request(worker: WorkerRecord, sent: Sent): Promise<{ status: number; text: string }> {
    const answer = await exchange(worker, sent).catch((cause: unknown) => brokenOff(worker, sent, cause));
    if (answer.isProven) return answer;
    run.log.warn("a report without its worker's signature: not heard", { id: sent.id, worker: worker.worker });
    return passOver(worker, "gave a report that it did not sign");
  }

  async function exchange(worker: WorkerRecord, sent: Sent) {
    const { signed, response } = await send(worker, sent);
    const { status, headers } = response;
    const text = await response.text();
    return { status, text, isProven: status !== 200 || signed.isReport(text, (name) => headers.get(name)) };
  }

  function brokenOff(worker: WorkerRecord, { signal }: Sent, cause: unknown): never {
    if (signal.aborted || isMgrpoError(cause)) throw cause;
    // Refused: it was gone before it heard of this invocation. Anything else broke off in the middle.
    const code = (cause as { cause?: { code?: unknown } }).cause?.code;
    if (UNTRUSTED.test(String(code))) throw untrusted(worker, String(code));
    return passOver(worker, `does not answer (${String(code)})`, code !== "ECONNREFUSED");
  }

  async function once(
    id: string,
    body: string,
    asked: InvocationRequest,
    signal: AbortSignal,
  ): Promise<InvocationReport> {
    const worker = await choose(id, asked.agent);
    const prefer = `wait=${LONGEST_POLL_SECONDS}`;
    const headers = { "content-type": "application/json", prefer };
    try {
      let response = await request(worker, { id, method: "PUT", body, headers, signal });
      while (response.status === 202) {
        response = await request(worker, { id, method: "GET", signal });
      }
      const { status, text } = response;
      if (status === 200) return parseJson(InvocationReport, text, `answer of worker '${worker.worker}'`);
      return refused(worker, status, text);
    } catch (error) {
      if (signal.aborted) cancel(worker, id);
      throw error;
    }
  }

  function refused(worker: WorkerRecord, status: number, text: string): never {
    if (status === 404) throw new Again(`worker '${worker.worker}' was restarted`);
    if (status === 409) throw new Again(`worker '${worker.worker}' is loading another version`);
    if (status === 503) return passOver(worker, "is draining");
    if (status === 410) throw new MgrpoError("step-closed", `worker '${worker.worker}': ${text}`);
    const failed = status === 502 ? failureOf(text) : undefined;
    if (failed) throw failed;
    if (status === 401 || status === 400 || status === 413) {
      throw new MgrpoError(
        "config-invalid",
        `worker '${worker.worker}' refused (${status}): ${text}; do all workers have the same MGRPO_WORKER_TOKEN and release?`,
      );
    }
    return passOver(worker, `answered ${status}`);
  }

  /** Nobody waits for the answer any more, so neither do we. */
  function cancel(worker: WorkerRecord, id: string) {
    send(worker, { id, method: "DELETE", signal: AbortSignal.timeout(1000) }).catch((error: unknown) =>
      run.log.info("a cancelled invocation may go on", { id, error: String(error) }),
    );
  }

  return {
    async invoke(id, asked, signal, opened = Promise.resolve()) {
      const body = canonicalJson(asked);
      let left = run.config.limits.invocationSeconds;
      let deaths = 0;
      let tries = 0;
      const attempt = async (): Promise<InvocationReport> => {
        const stored = tries++ > 0 ? await findInvocation(run, id, asked) : undefined;
        if (stored) return stored;
        const deadline = timeLimitAfter(opened, left);
        const served = serving(observer, asked.agent).length > 0;
        try {
          return await once(id, body, asked, AbortSignal.any([signal, deadline.signal]));
        } catch (error) {
          if (signal.aborted) throw new MgrpoError("cancelled", `invocation ${id} was cancelled`);
          if (deadline.signal.aborted) throw late(run, id, asked);
          if (error instanceof Again && error.died && ++deaths >= MAX_DEATHS) {
            throw new MgrpoError(
              "worker-unavailable",
              `${deaths} workers of '${asked.agent}' died under invocation ${id}`,
            );
          }
          throw error;
        } finally {
          const waited = deadline.end();
          if (served) left -= waited;
        }
      };
      return pRetry(attempt, {
        retries: Number.POSITIVE_INFINITY,
        minTimeout: 50,
        maxTimeout: 1000,
        signal,
        shouldRetry: ({ error }) => error instanceof Again,
      }).catch((error: unknown) => {
        throw signal.aborted && !isMgrpoError(error)
          ? new MgrpoError("cancelled", `invocation ${id} was cancelled`)
          : error;
      });
    },
  };
}

function late({ config, name }: RunContext, id: string, { agent, address }: InvocationRequest): MgrpoError {
  const key = objectKeys.invocation(name, address.step, id);
  return new MgrpoError("deadline", `'${agent}' did not answer within ${config.limits.invocationSeconds} s (${key})`);
}

function untrusted({ worker, url }: WorkerRecord, code: string): MgrpoError {
  return new MgrpoError(
    "config-invalid",
    `worker '${worker}' at ${url}: its certificate is not trusted here (${code}); name the authority's file in NODE_EXTRA_CA_CERTS, or mend its --url`,
  );
}

/** What the sub-agent's worker reports of its own infrastructure; undefined when it was a proxy before it that answered. */
function failureOf(text: string): MgrpoError | undefined {
  let reported: unknown;
  try {
    reported = JSON.parse(text);
  } catch {
    return undefined;
  }
  const failure = Failure.safeParse(reported);
  if (!failure.success) return undefined;
  const { code, message } = failure.data;
  const known = REPORTED.find((reported) => reported === code) ?? "worker-unavailable";
  return new MgrpoError(known, `the sub-agent's worker: ${message}`, { retryable: true });
}

/** Rendezvous: every caller ranks the workers the same way, and one that goes moves only its own share. */
function rank(id: string, worker: string): string {
  return createHash("sha256").update(`${id} ${worker}`).digest("hex");
}
