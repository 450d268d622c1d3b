/**
 * @file Delegation over HTTP. The caller picks one of the live workers that serve the agent, and retries every failure that may be transient.
 * A worker that is at fault is passed over for a second. Before each retry, the caller looks for the result in the store.
 *
 *     PUT ──202──> GET ──200──> report      no worker, 503, unreachable     retry with backoff, elsewhere if possible
 *      ^            │ '──404: restarted──┐  409                             retry with backoff
 *      '────────────┴────────────────────┘  401 to a call that is old       retry, signed again: the machine slept
 *                                           410                             `step-closed`: abandon
 *                                           400, 401, 413, TLS failure,     `config-invalid`: no retry can help
 *                                           blocked port
 *                                           502 with a code                 the failure that the worker reports: rethrown
 *                                           200 without a valid signature   as 503: a forged report never becomes text
 *
 * Only time spent at a worker, in an open step, counts against `limits.invocationSeconds`; when that is used up, the invocation ends with
 * `deadline`. If a second worker dies running it, it ends with `worker-unavailable`: the caller then quarantines the rollout and runs it alone.
 */

import pRetry from "p-retry";
import { withAnySignal } from "../../core/any-signal.ts";
import { objectKeys } from "../../core/contracts/keys.ts";
import { canonicalJson } from "../../core/contracts/parse.ts";
import type { WorkerRecord } from "../../core/contracts/records.ts";
import type { InvocationReport, InvocationRequest } from "../../core/contracts/rollout.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { Delegation } from "../../core/ports.ts";
import { timeLimitAfter } from "../limits.ts";
import type { WorkerObserver } from "../liveness/observer.ts";
import type { RunContext } from "../run-context.ts";
import { httpNetwork, type WorkerNetwork } from "./network.ts";
import { findInvocation } from "./run-invocation.ts";
import { openCallSigner } from "./signature.ts";
import { TransientFailure, WorkerClient } from "./worker-client.ts";
import { WorkerPool } from "./worker-pool.ts";

/** An invocation, or the first turn of an app's session, is abandoned once this many workers have died running it. */
export const MAX_DEATHS = 2;

/** What all invocations of one caller share. */
interface InvocationContext {
  readonly run: RunContext;
  readonly pool: WorkerPool;
  readonly client: WorkerClient;
}

/** One invocation, across its attempts. */
interface PendingInvocation {
  readonly id: string;
  readonly request: InvocationRequest;
  /** Canonical JSON of the request. */
  readonly body: string;
  /** Aborts when the caller no longer needs the report. */
  readonly signal: AbortSignal;
  /** Resolves when the step is open: the invocation's time limit starts then. */
  readonly opened: Promise<unknown>;
  attempts: number;
  /** The workers that have died running it, each counted once: a proxy that cannot reach a live one breaks every connection. */
  readonly died: Set<string>;
  /** Why the last attempt at a worker failed, or, before the first such attempt, that no worker is available. Absent: nothing has failed. */
  failure?: string;
  secondsLeft: number;
}

export function httpDelegation(
  run: RunContext,
  observer: WorkerObserver,
  secret: string,
  network: Pick<WorkerNetwork, "fetch"> = httpNetwork,
): Delegation {
  const { clock } = run.store;
  const caller: InvocationContext = {
    run,
    pool: new WorkerPool(observer, clock),
    client: new WorkerClient(openCallSigner(secret, clock), network, run.log),
  };
  return {
    invoke: (id, request, signal, opened = Promise.resolve()) =>
      invoke(caller, {
        id,
        request,
        body: canonicalJson(request),
        signal,
        opened,
        attempts: 0,
        died: new Set(),
        secondsLeft: run.config.limits.invocationSeconds,
      }),
  };
}

async function invoke(caller: InvocationContext, invocation: PendingInvocation): Promise<InvocationReport> {
  const { id, signal } = invocation;
  try {
    return await pRetry(() => attempt(caller, invocation), {
      retries: Number.POSITIVE_INFINITY,
      minTimeout: 50,
      maxTimeout: 1000,
      signal,
      shouldRetry: ({ error }) => error instanceof TransientFailure,
    });
  } catch (error) {
    throw signal.aborted && !isMgrpoError(error) ? canceled(id) : error;
  }
}

async function attempt(caller: InvocationContext, invocation: PendingInvocation): Promise<InvocationReport> {
  const { id, request, signal } = invocation;
  const stored = invocation.attempts++ > 0 ? await findInvocation(caller.run, id, request) : undefined;
  if (stored) return stored;
  const deadline = timeLimitAfter(invocation.opened, invocation.secondsLeft);
  let worker: WorkerRecord | undefined;
  try {
    worker = await caller.pool.pick(id, request.agent);
    if (!worker) throw new TransientFailure(`no worker that serves '${request.agent}' is available`);
    const asked = worker;
    return await withAnySignal([signal, deadline.signal], (either) => askWorker(caller, invocation, asked, either));
  } catch (error) {
    if (signal.aborted) throw canceled(id);
    if (deadline.signal.aborted) throw deadlinePassed(caller.run, invocation);
    // That no worker is available says less than why the last attempt failed.
    if (error instanceof TransientFailure && (worker || !invocation.failure)) invocation.failure = error.message;
    if (worker && error instanceof TransientFailure && error.workerDied) invocation.died.add(worker.worker);
    if (invocation.died.size >= MAX_DEATHS) {
      const message = `${invocation.died.size} workers of '${request.agent}' died while they ran invocation ${id}`;
      throw new MgrpoError("worker-unavailable", message);
    }
    throw error;
  } finally {
    const waited = deadline.end();
    if (worker) invocation.secondsLeft -= waited;
  }
}

/** One attempt at one worker. */
async function askWorker(
  { pool, client }: InvocationContext,
  { id, body }: PendingInvocation,
  worker: WorkerRecord,
  signal: AbortSignal,
): Promise<InvocationReport> {
  try {
    return await client.invoke(worker, id, body, signal);
  } catch (error) {
    if (signal.aborted) client.cancel(worker, id);
    if (error instanceof TransientFailure && error.isWorkerAtFault) pool.passOver(worker);
    throw error;
  }
}

const canceled = (id: string) => new MgrpoError("canceled", `invocation ${id} was canceled`);

function deadlinePassed(
  { config, name }: RunContext,
  { id, request: { agent, address }, failure }: PendingInvocation,
): MgrpoError {
  const key = objectKeys.invocation(name, address.step, id);
  const why = failure === undefined ? "" : `; the previous attempt failed: ${failure}`;
  const limit = `limits.invocationSeconds ${config.limits.invocationSeconds}`;
  return new MgrpoError("deadline", `'${agent}' did not answer within ${limit} (${key})${why}`);
}
