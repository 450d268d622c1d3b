/**
 * @file A sub-agent in another worker. All of a session's turns go to one worker: only that worker has its tokens. If it is lost, so is the
 * attempt, which is then tried again. The attempt also ends if the session's first turn has killed two workers: the caller then runs the
 * rollout alone.
 *
 *     free ──first request──> asked ──first reply──> held: no other worker may answer
 *       ^                       └── every request failed ──┐   two workers died: `worker-unavailable`
 *       '──────────────────────────────────────────────────'
 */
import pRetry from "p-retry";
import type { z } from "zod";
import { type AgentSession, EndedSession, TurnReply, type TurnRequest } from "../../core/contracts/app-chat.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import { canonicalJson, parseJson } from "../../core/contracts/parse.ts";
import type { WorkerRecord } from "../../core/contracts/records.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import { MAX_DEATHS } from "../invocations/client.ts";
import { httpNetwork, type WorkerNetwork } from "../invocations/network.ts";
import { openCallSigner } from "../invocations/signature.ts";
import { responseFailure, TransientFailure, WorkerClient } from "../invocations/worker-client.ts";
import { WorkerPool } from "../invocations/worker-pool.ts";
import type { WorkerObserver } from "../liveness/observer.ts";
import type { RunContext } from "../run-context.ts";
import { LimitReached } from "./limit-reached.ts";
import { LimitReport, MAX_SESSION_BODY_BYTES } from "./session-routes.ts";
import type { SessionSummary, SubAgent } from "./sub-agents.ts";

/** The workers of remote sub-agents, as one caller reaches them. */
export interface RemoteWorkers {
  readonly pool: WorkerPool;
  readonly client: WorkerClient;
  /** The team, by name. */
  readonly agents: RunConfig["agents"];
}

export function openRemoteWorkers(
  run: RunContext,
  observer: WorkerObserver,
  secret: string,
  network: Pick<WorkerNetwork, "fetch"> = httpNetwork,
): RemoteWorkers {
  const { clock } = run.store;
  return {
    pool: new WorkerPool(observer, clock),
    client: new WorkerClient(openCallSigner(secret, clock), network, run.log),
    agents: run.config.agents,
  };
}

export function remoteSubAgent({ pool, client, agents }: RemoteWorkers, agent: string): SubAgent {
  /** By session id. */
  const assignments = new Map<string, SessionAssignment>();

  /** Posts until the session's worker replies. */
  const post = async <S extends z.ZodType>(
    { id }: AgentSession,
    path: string,
    body: string,
    schema: S,
    signal: AbortSignal,
  ): Promise<z.infer<S>> => {
    if (signal.aborted) throw canceled(id);
    const assignment = assignments.get(id) ?? newAssignment();
    assignments.set(id, assignment);
    const ask = async () => {
      const worker = await workerOf(assignment, () => pool.pick(id, agent));
      if (!worker) throw new TransientFailure(`no worker that serves '${agent}' is available`);
      try {
        const report = await postTo(client, worker, `/sessions/${id}/${path}`, body, schema, signal);
        assignment.isHeld = true;
        return report;
      } catch (error) {
        if (!(error instanceof TransientFailure) || signal.aborted) throw error;
        if (error.isWorkerAtFault) pool.passOver(worker);
        throw lossOf(agent, assignment, worker, error) ?? error;
      } finally {
        assignment.inFlight -= 1;
      }
    };
    return pRetry(ask, {
      retries: Number.POSITIVE_INFINITY,
      minTimeout: 50,
      maxTimeout: 1000,
      signal,
      shouldRetry: ({ error }) => error instanceof TransientFailure,
    }).catch((error: unknown) => {
      throw signal.aborted && !isMgrpoError(error) ? canceled(id) : error;
    });
  };

  return {
    turn: async (session, request, signal) =>
      post(session, "turns", turnBody(session, request, agents[agent]), TurnReply, signal),
    async end(session, summary, signal) {
      const assignment = assignments.get(session.id);
      // This agent never replied to the app.
      if (!assignment?.isHeld) return NEVER_CALLED;
      const ended = await post(session, "end", endBody(session, summary), EndedSession, signal);
      if (assignment.worker) assignment.asked.delete(assignment.worker.url);
      return ended;
    },
    discard({ id }) {
      const { asked } = assignments.get(id) ?? {};
      assignments.delete(id);
      // Without this, a worker whose caller is gone would let its turn continue, for a retry.
      for (const worker of asked?.values() ?? []) client.delete(worker, `/sessions/${id}`);
    },
  };
}

/**
 * Tool responses are cut, since a conversation that `previous_response_id` continues has all of them in full. Each keeps one character more
 * than the agent sees, so that its worker marks it as cut. Throws `LimitReached` if the body is still larger than the worker accepts.
 */
function turnBody(session: AgentSession, request: TurnRequest, agent: RunConfig["agents"][string] | undefined): string {
  const kept = agent && agent.limits.responseCharacters + 1;
  const messages = request.messages.map((message) =>
    message.role === "tool" ? { ...message, text: message.text.slice(0, kept) } : message,
  );
  const body = canonicalJson({ session, request: { ...request, messages } });
  if (Buffer.byteLength(body) <= MAX_SESSION_BODY_BYTES) return body;
  const message = `the conversation is larger than ${MAX_SESSION_BODY_BYTES} bytes, the most that '${session.agent}' takes`;
  throw new LimitReached("token-limit", message);
}

/** Throws `request-refused` if the body is larger than the worker accepts. */
function endBody(session: AgentSession, summary: SessionSummary): string {
  const body = canonicalJson({ session, ...summary });
  if (Buffer.byteLength(body) <= MAX_SESSION_BODY_BYTES) return body;
  throw new MgrpoError(
    "request-refused",
    `the texts in the main agent's calls, which '${session.agent}' needs at the end of a session, are larger than ${MAX_SESSION_BODY_BYTES} bytes: lower the main agent's limits.turns or limits.turnTokens`,
  );
}

/** Which worker a session is assigned to. */
interface SessionAssignment {
  worker: WorkerRecord | undefined;
  /** Requests in flight at the worker. */
  inFlight: number;
  /** The worker has replied: no other one may. */
  isHeld: boolean;
  /** Workers that may have a part of the session, by URL. */
  readonly asked: Map<string, WorkerRecord>;
  /** Workers that died while they had a request of the session. */
  readonly died: Set<string>;
}

const newAssignment = (): SessionAssignment => ({
  worker: undefined,
  inFlight: 0,
  isHeld: false,
  asked: new Map(),
  died: new Set(),
});

/** The worker for one more request of the session. Another is picked only if none has replied or has a request in flight. */
async function workerOf(
  assignment: SessionAssignment,
  pick: () => Promise<WorkerRecord | undefined>,
): Promise<WorkerRecord | undefined> {
  const isSettled = () => assignment.isHeld || assignment.inFlight > 0;
  const picked = isSettled() ? assignment.worker : await pick();
  // Another request may have been sent meanwhile.
  if (!isSettled()) assignment.worker = picked;
  const { worker } = assignment;
  if (!worker) return undefined;
  assignment.inFlight += 1;
  assignment.asked.set(worker.url, worker);
  return worker;
}

const canceled = (id: string) => new MgrpoError("canceled", `session ${id} was canceled`);

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
    // A proxy's limit: `turnBody` and `endBody` keep to the worker's own.
    if (response.status === 413) {
      const message = `worker '${worker.worker}' refused a request of ${body.length} characters (413): ${response.text.slice(0, 300)}`;
      throw new MgrpoError("request-refused", `${message}; raise the body limit of the proxy in front of it`);
    }
    if (response.status !== 202) throw responseFailure(worker, response);
  }
}

/** The error that ends the attempt after a failure of the session's worker; undefined: the request is retried. */
function lossOf(
  agent: string,
  { isHeld, died }: SessionAssignment,
  { worker }: WorkerRecord,
  failure: TransientFailure,
): MgrpoError | undefined {
  if (isHeld) return failure.isWorkerAtFault || failure.isWorkUnknown ? lost(agent, failure) : undefined;
  if (failure.workerDied) died.add(worker);
  if (died.size < MAX_DEATHS) return undefined;
  const message = `${died.size} workers of '${agent}' died while they ran the first turn of a session`;
  return new MgrpoError("worker-unavailable", message, { cause: failure });
}

/** Only a worker that died is a reason to run the rollout alone: one that is draining or was restarted earlier is not. */
const lost = (agent: string, cause: TransientFailure) =>
  new MgrpoError(
    cause.workerDied ? "worker-unavailable" : "session-lost",
    `the worker that had this session of '${agent}' is no longer available: ${cause.message}`,
    { retryable: true, cause },
  );
