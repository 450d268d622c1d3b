/**
 * @file A sub-agent in another worker. A session stays with the worker that answered its first turn: only that one has its tokens. If it is
 * lost, so is the attempt, which is then tried again.
 */
import pRetry from "p-retry";
import type { z } from "zod";
import { type AgentSession, EndedSession, TurnReply } from "../../core/contracts/app-chat.ts";
import { canonicalJson, parseJson } from "../../core/contracts/parse.ts";
import type { WorkerRecord } from "../../core/contracts/records.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import { httpNetwork, type WorkerNetwork } from "../invocations/network.ts";
import { openCallSigner } from "../invocations/signature.ts";
import { responseFailure, TransientFailure, WorkerClient } from "../invocations/worker-client.ts";
import { WorkerPool } from "../invocations/worker-pool.ts";
import type { WorkerObserver } from "../liveness/observer.ts";
import type { RunContext } from "../run-context.ts";
import { LimitReached } from "./limit-reached.ts";
import { LimitReport } from "./session-routes.ts";
import type { SubAgent } from "./sub-agents.ts";

/** Remote sub-agents of one caller. */
export interface Remote {
  readonly pool: WorkerPool;
  readonly client: WorkerClient;
}

export function openRemote(
  run: RunContext,
  observer: WorkerObserver,
  secret: string,
  network: Pick<WorkerNetwork, "fetch"> = httpNetwork,
): Remote {
  const { clock } = run.store;
  return {
    pool: new WorkerPool(observer, clock),
    client: new WorkerClient(openCallSigner(secret, clock), network, run.log),
  };
}

export function remoteSubAgent({ pool, client }: Remote, agent: string): SubAgent {
  /** Session -> the worker that answered its first request. */
  const holders = new Map<string, WorkerRecord>();

  /** Posts until a worker reports. Any worker may give a session's first report; only that one gives the others. */
  const post = async <S extends z.ZodType>(
    { id }: AgentSession,
    path: string,
    body: unknown,
    schema: S,
    signal: AbortSignal,
  ): Promise<z.infer<S>> => {
    const holder = holders.get(id);
    const ask = async () => {
      const worker = holder ?? (await pool.pick(id, agent));
      if (!worker) throw new TransientFailure(`no live worker serves '${agent}'`);
      try {
        const report = await postTo(client, worker, `/sessions/${id}/${path}`, canonicalJson(body), schema, signal);
        holders.set(id, worker);
        return report;
      } catch (error) {
        if (!(error instanceof TransientFailure) || signal.aborted) throw error;
        if (error.isWorkerAtFault) pool.passOver(worker);
        if (holder && error.isWorkerAtFault) throw lost(agent, error);
        throw error;
      }
    };
    return pRetry(ask, {
      retries: Number.POSITIVE_INFINITY,
      minTimeout: 50,
      maxTimeout: 1000,
      signal,
      shouldRetry: ({ error }) => error instanceof TransientFailure,
    }).catch((error: unknown) => {
      throw signal.aborted && !isMgrpoError(error) ? new MgrpoError("canceled", `session ${id} was canceled`) : error;
    });
  };

  return {
    turn: (session, request, signal) => post(session, "turns", { session, request }, TurnReply, signal),
    async end(session, summary, signal) {
      // The app never called this agent.
      if (!holders.has(session.id)) return NEVER_CALLED;
      const ended = await post(session, "end", { session, ...summary }, EndedSession, signal);
      holders.delete(session.id);
      return ended;
    },
    discard({ id }) {
      const worker = holders.get(id);
      holders.delete(id);
      if (worker) client.delete(worker, `/sessions/${id}`);
    },
  };
}

const NEVER_CALLED: EndedSession = {
  invocations: [],
  counts: { branches: 0, rewritten: 0, unparsed: 0, cut: 0 },
};

async function postTo<S extends z.ZodType>(
  client: WorkerClient,
  worker: WorkerRecord,
  path: string,
  body: string,
  schema: S,
  signal: AbortSignal,
): Promise<z.infer<S>> {
  const headers = { "content-type": "application/json" };
  for (;;) {
    const response = await client.call(worker, { path, method: "POST", body, headers, signal });
    if (response.status === 200) return parseJson(schema, response.text, `answer of worker '${worker.worker}'`);
    if (response.status === 422) {
      const { limit, message } = parseJson(LimitReport, response.text, `answer of worker '${worker.worker}'`);
      throw new LimitReached(limit, message);
    }
    if (response.status !== 202) throw responseFailure(worker, response);
  }
}

const lost = (agent: string, cause: Error) =>
  new MgrpoError(
    "worker-unavailable",
    `the worker that had this session of '${agent}' is no longer available: ${cause.message}`,
    {
      retryable: true,
      cause,
    },
  );
