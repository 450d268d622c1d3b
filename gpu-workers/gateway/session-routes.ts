/**
 * @file The sessions of a sub-agent over HTTP, in addition to its invocations: the main agent's worker forwards an app's requests. Calls
 * and reports are signed as those of invocations are.
 *
 *     POST   /sessions/<id>/turns   200 the reply · 202 no reply after 25 s: post the same again · 409 loading another version
 *                                   · 410 the step is not open · 422 a limit of the agent is reached · 502 failed, {code, message}
 *                                   · 503 draining, or the session has ended · 400 malformed, or for another session or agent
 *                                   · 413 too large
 *     POST   /sessions/<id>/end     200 the committed conversations, the same if repeated · 400, 413, 502 as above
 *     DELETE /sessions/<id>         204 forgotten
 */

import type { Context, Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import * as z from "zod";
import { withAnySignal } from "../../core/any-signal.ts";
import { type AgentSession, type EndedSession, SessionEnd, SessionTurn } from "../../core/contracts/app-chat.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import { isMgrpoError } from "../../core/errors.ts";
import type { AdmissionRules } from "../invocations/admission.ts";
import {
  LONGEST_POLL_SECONDS,
  requireSignature,
  type Signatures,
  tooLarge,
  withoutReport,
} from "../invocations/server.ts";
import { type Log, stackOf } from "../log.ts";
import { turnFault } from "./attempt.ts";
import { LimitReached } from "./limit-reached.ts";
import type { SubAgent } from "./sub-agents.ts";

/**
 * Limit on the body of a turn and of an end: room for any request that the gateway accepts (api/app.ts). Conversations that
 * `previous_response_id` continues, and the call texts of an end, may be longer: the caller refuses those (remote-sub-agent.ts).
 */
export const MAX_SESSION_BODY_BYTES = 8 << 20;

export interface SessionHost {
  readonly agent: string;
  readonly sub: SubAgent;
  readonly admission: AdmissionRules;
  /** How many earlier steps may still be sampled alongside a session's own. */
  readonly staleness: number;
  /** Whether another version is being loaded, and `version` is neither open nor being loaded. */
  isLoadingOther(version: number): boolean;
  readonly log: Pick<Log, "error">;
}

/** The body of a 422: a limit that the agent's conversation reached. */
export const LimitReport = z.strictObject({ limit: z.enum(["token-limit", "turn-limit"]), message: z.string() });
export type LimitReport = z.infer<typeof LimitReport>;

interface State {
  readonly host: SessionHost;
  readonly stop: AbortController;
  /**
   * By session id: what its end committed. When a session ends, entries more than `staleness` + 1 steps older are dropped: ends of the
   * oldest step that is sampled alongside its own, and of the step before that, may still be repeated.
   */
  readonly ended: Map<string, { readonly step: number; readonly result: Promise<EndedSession> }>;
}

export interface SessionRoutes {
  /**
   * Refuses new turns, and no longer waits for those in progress. Resolves when the ends in progress are committed or have failed: a caller
   * takes a broken connection for the death of the worker, and then runs the rollout alone.
   */
  close(): Promise<void>;
}

/** Adds the routes to the worker's app. @param prefix the app's base path, without its slash. */
export function addSessionRoutes(app: Hono, prefix: string, signatures: Signatures, host: SessionHost): SessionRoutes {
  const state: State = { host, stop: new AbortController(), ended: new Map() };
  app.use(
    "/sessions/*",
    bodyLimit({ maxSize: MAX_SESSION_BODY_BYTES, onError: tooLarge(MAX_SESSION_BODY_BYTES) }),
    requireSignature(prefix, signatures.verify),
  );
  app.post("/sessions/:id/turns", async (context) => {
    const body = await context.req.text();
    const turn = parseJson(SessionTurn, body, "body of a session's turn", "event-malformed");
    const answer = await answerTurn(state, context.req.param("id"), turn, context.req.raw.signal);
    return responseOf(answer, signatures, context);
  });
  app.post("/sessions/:id/end", async (context) => {
    const body = await context.req.text();
    const end = parseJson(SessionEnd, body, "body of a session's end", "event-malformed");
    const answer = await answerEnd(state, context.req.param("id"), end);
    return responseOf(answer, signatures, context);
  });
  app.delete("/sessions/:id", async (context) => {
    host.sub.discard({ id: context.req.param("id") });
    return context.body(null, 204);
  });
  return {
    async close() {
      state.stop.abort();
      await Promise.allSettled([...state.ended.values()].map(({ result }) => result));
    },
  };
}

/** `report` and `limit` are signed. */
type Answer = { readonly report: unknown } | { readonly limit: LimitReport } | { readonly response: Response };

function responseOf(answer: Answer, { signReport }: Signatures, { req }: Context): Response {
  if ("response" in answer) return answer.response;
  const [status, report] = "limit" in answer ? [422, answer.limit] : [200, answer.report];
  const body = JSON.stringify(report);
  const signature = signReport(body, (name) => req.header(name));
  return new Response(body, { status, headers: { "content-type": "application/json", ...signature } });
}

async function answerTurn(
  { host, stop }: State,
  id: string,
  { session, request }: SessionTurn,
  caller: AbortSignal,
): Promise<Answer> {
  const askedAt = performance.now();
  const refused = await refusal(host, stop, id, session);
  if (refused) return { response: refused };
  const waiting = new AbortController();
  // A slow store delays the admission, and the caller takes a late answer to mean that the worker died.
  const leftMs = LONGEST_POLL_SECONDS * 1000 - (performance.now() - askedAt);
  const timer = setTimeout(() => waiting.abort(), leftMs);
  try {
    return await withAnySignal([waiting.signal, stop.signal, caller], async (signal) => {
      await host.admission.whenReady(session, signal);
      return { report: await host.sub.turn(session, request, signal) };
    });
  } catch (error) {
    if (waiting.signal.aborted && !stop.signal.aborted) return { response: new Response(null, { status: 202 }) };
    return failure(host, error);
  } finally {
    clearTimeout(timer);
  }
}

/** `close` waits for the ends in progress, so neither it nor a caller that is gone cancels them. */
const NEVER_ABORTED = new AbortController().signal;

async function answerEnd({ host, ended }: State, id: string, { session, ...summary }: SessionEnd): Promise<Answer> {
  const misdirected = misdirection(host, id, session);
  if (misdirected) return { response: misdirected };
  const { step } = session.address;
  const oldest = step - 1 - host.staleness;
  for (const [old, end] of ended) if (end.step < oldest) ended.delete(old);
  const result = ended.get(id)?.result ?? host.sub.end(session, summary, NEVER_ABORTED);
  ended.set(id, { step, result });
  try {
    return { report: await result };
  } catch (error) {
    ended.delete(id);
    return failure(host, error);
  }
}

async function refusal(
  host: SessionHost,
  stop: AbortController,
  id: string,
  session: AgentSession,
): Promise<Response | undefined> {
  const { admission, isLoadingOther } = host;
  const misdirected = misdirection(host, id, session);
  if (misdirected) return misdirected;
  if (stop.signal.aborted) return new Response("draining", { status: 503 });
  if (!(await admission.admits(session))) return new Response("the step is not open for this version", { status: 410 });
  if (!isLoadingOther(session.version)) return undefined;
  return new Response("loading another version", { status: 409, headers: { "Retry-After": "1" } });
}

/** The refusal of a request for a session other than the one that the path names, or for another agent. */
function misdirection({ agent }: SessionHost, id: string, session: AgentSession): Response | undefined {
  if (id === session.id && session.agent === agent) return undefined;
  return new Response(`the path names another session, or its agent is not '${agent}'`, { status: 400 });
}

function failure(host: SessionHost, error: unknown): Answer {
  if (error instanceof LimitReached) return { limit: { limit: error.limit, message: error.message } };
  if (isMgrpoError(error)) return { response: withoutReport({ state: "failed", error }) };
  host.log.error("session request failed", { error: stackOf(error) });
  return { response: withoutReport({ state: "failed", error: turnFault(host.agent, error) }) };
}
