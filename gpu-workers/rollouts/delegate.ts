/** @file How an agent's conversation calls the agents below it: the same for the main agent and for every sub-agent that delegates. */
import type { AgentConfig } from "../../core/contracts/agent-config.ts";
import { agentsBelow } from "../../core/contracts/delegation.ts";
import type { CallPath, InvocationRequest, PinnedAgent } from "../../core/contracts/rollout.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Delegation } from "../../core/ports.ts";
import { invocationId } from "../identity.ts";
import type { Delegate } from "./answer-calls.ts";

/** The conversation that calls. */
export interface Caller extends Pick<InvocationRequest, "address" | "questionId" | "closedBook"> {
  readonly path: CallPath;
  /** What the step pins for the agents below it. */
  readonly below: Readonly<Record<string, PinnedAgent>>;
  /** Time limits start once it resolves; absent: immediately. */
  readonly opened?: Promise<unknown> | undefined;
}

/** @param agents the team: an invocation carries what is pinned for the agents below the one that it invokes. */
export function delegateOf(
  delegation: Delegation,
  agents: Readonly<Record<string, AgentConfig>>,
  { address, questionId, closedBook, path, below, opened }: Caller,
): Delegate {
  return async ({ agent, task, call, allowance }, signal) => {
    const inherited = agentsBelow(agents, agent).map((name) => [name, pinned(below, name, address.step)] as const);
    const request: InvocationRequest = {
      address,
      questionId,
      agent,
      ...pinned(below, agent, address.step),
      call,
      ...(path.length > 0 && { callers: [...path] }),
      ...(inherited.length > 0 && { below: Object.fromEntries(inherited) }),
      task,
      closedBook,
      ...(allowance && { allowance }),
    };
    return delegation.invoke(invocationId(request), request, signal, opened);
  };
}

function pinned(below: Caller["below"], agent: string, step: number): PinnedAgent {
  const found = below[agent];
  if (found) return found;
  throw new MgrpoError("record-damaged", `step ${step} pins no version of '${agent}'`);
}
