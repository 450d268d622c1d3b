/**
 * @file A sub-agent as the gateway reaches it, in this process or in another worker. At the end of a session its delivered conversations are
 * committed as invocations, in the process that sampled them.
 */
import type { AgentSession, EndedSession, SessionEnd, TurnReply, TurnRequest } from "../../core/contracts/app-chat.ts";
import { objectKeys } from "../../core/contracts/keys.ts";
import { digestOf } from "../../core/contracts/names.ts";
import type { Invocation, InvocationRef } from "../../core/contracts/rollout.ts";
import { type Branch, byTask, subConversationOf, taskOfBranch, trajectoryOf } from "../../core/gateway/branch.ts";
import { sha256 } from "../../engine/hash.ts";
import { recordBytes } from "../identity.ts";
import type { RunContext } from "../run-context.ts";
import { noTrajectoryCache, type TrajectoryCache } from "../training/trajectories.ts";
import type { Sessions } from "./agent-sessions.ts";

export interface SubAgent {
  turn(session: AgentSession, request: TurnRequest, signal: AbortSignal): Promise<TurnReply>;
  /** Commits the conversations whose replies were delivered, numbered in the order of their tasks. Can be repeated until it succeeds. */
  end(session: AgentSession, summary: SessionSummary, signal: AbortSignal): Promise<EndedSession>;
  /** Forgets the session. Best effort. */
  discard(session: Pick<AgentSession, "id">): void;
}

/** What an attempt knows, when it ends, about a sub-agent's conversations. */
export type SessionSummary = Pick<SessionEnd, "delivered" | "callTexts">;

export function localSubAgent(
  run: RunContext,
  sessions: Sessions,
  trajectories: TrajectoryCache = noTrajectoryCache,
): SubAgent {
  return {
    turn: (session, request, signal) => sessions.turn(session, request, signal),
    end: (session, summary) => endSession(run, sessions, session, summary, trajectories),
    discard: ({ id }) => sessions.discard(id),
  };
}

/** Ends the session and commits its branches, each as an invocation whose `call` is its index in the order of tasks. */
async function endSession(
  run: RunContext,
  sessions: Sessions,
  session: AgentSession,
  { delivered, callTexts }: SessionSummary,
  trajectories: TrajectoryCache,
): Promise<EndedSession> {
  const { branches, counts } = sessions.end(session.id, delivered);
  const commits = byTask(branches, callTexts).map((branch, call) =>
    commitBranch(run, session, branch, call, trajectories),
  );
  const invocations = await Promise.all(commits);
  // Only now: until its conversations are committed, the end can be repeated.
  sessions.discard(session.id);
  return { invocations, counts };
}

async function commitBranch(
  run: RunContext,
  { address, questionId, agent, version, sampling }: AgentSession,
  branch: Branch,
  call: number,
  trajectories: TrajectoryCache,
): Promise<InvocationRef> {
  const request = {
    address,
    questionId,
    agent,
    version,
    call,
    task: taskOfBranch(branch),
    sampling,
    closedBook: false,
  };
  const conversation = subConversationOf(branch);
  const trajectory = trajectoryOf(agent, version, branch);
  // The same request may get another reply in another attempt: the id is a hash of the conversation too.
  const id = digestOf(sha256(recordBytes({ request, conversation, trajectory })));
  const invocation: Invocation = { id, request, conversation, trajectory };
  const key = objectKeys.invocation(run.name, address.step, id);
  const bytes = recordBytes(invocation);
  const hash = sha256(bytes);
  await run.store.objects.commit(key, bytes, hash);
  trajectories.put(address.step, key, [trajectory], digestOf(hash));
  return { id, agent, key, sha256: hash };
}
