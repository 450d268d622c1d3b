/** @file A sub-agent's conversation on a subtask. Its result is committed before it is reported; the first commit at the key wins. */
import { objectKeys } from "../../core/contracts/keys.ts";
import { digestOf } from "../../core/contracts/names.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import { callPathOf, Invocation, type InvocationReport, type InvocationRequest } from "../../core/contracts/rollout.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Delegation } from "../../core/ports.ts";
import type { StreamName } from "../../core/random.ts";
import { sha256 } from "../../engine/hash.ts";
import { recordBytes } from "../identity.ts";
import { type HostedAgent, runConversation } from "../rollouts/agent.ts";
import { delegateOf } from "../rollouts/delegate.ts";
import type { RunContext } from "../run-context.ts";
import type { TrajectoryCache } from "../training/trajectories.ts";

function invocationKey(run: string, id: string, { address }: InvocationRequest): string {
  return objectKeys.invocation(run, address.step, id);
}

/** `hash`: SHA-256 of the committed record. */
function reportOf(
  { id, request, conversation, spent, invocations }: Invocation,
  key: string,
  hash: string,
): InvocationReport {
  return {
    ref: { id, agent: request.agent, key, sha256: hash },
    answer: conversation.answer,
    ...(spent && { spent }),
    ...(invocations && { invocations }),
  };
}

/** The report of the committed result, or undefined while there is none. */
export async function findInvocation(
  run: RunContext,
  id: string,
  request: InvocationRequest,
): Promise<InvocationReport | undefined> {
  const key = invocationKey(run.name, id, request);
  const bytes = await run.store.objects.get(key);
  return bytes && reportOf(parseJson(Invocation, bytes, key), key, sha256(bytes));
}

export interface InvocationOptions {
  /** The first parts of the names of its random streams: the run's seed and the purpose. */
  readonly purpose: StreamName;
  /** How the sub-agent calls the agents below it. */
  readonly delegation: Delegation;
  /** Resolves when the step is open. Absent: it is open already. */
  readonly opened?: Promise<unknown>;
  readonly trajectories?: TrajectoryCache;
}

export async function runInvocation(
  run: RunContext,
  agent: HostedAgent,
  id: string,
  request: InvocationRequest,
  options: InvocationOptions,
  signal: AbortSignal,
): Promise<InvocationReport> {
  const { address, questionId, version, task, sampling, closedBook, allowance, below = {} } = request;
  const path = callPathOf(request);
  const caller = { address, questionId, closedBook, path, below, opened: options.opened };
  const question = run.question(questionId);
  const { conversation, trajectory, spent, invocations } = await runConversation(
    agent,
    {
      address,
      version,
      question,
      prompt: task,
      delegate: delegateOf(options.delegation, run.config.agents, caller),
      sampling,
      purpose: options.purpose,
      path,
      closedBook,
      allowance,
    },
    signal,
  );
  const invocation: Invocation = {
    id,
    request,
    conversation,
    trajectory,
    ...(allowance && { spent }),
    ...(invocations.length > 0 && { invocations }),
  };
  const key = invocationKey(run.name, id, request);
  const bytes = recordBytes(invocation);
  if (await run.store.objects.commit(key, bytes)) {
    const hash = sha256(bytes);
    options.trajectories?.put(address.step, key, [trajectory], digestOf(hash));
    return reportOf(invocation, key, hash);
  }
  const winner = await findInvocation(run, id, request);
  if (!winner) throw new MgrpoError("record-damaged", `${key} was committed by another worker but is missing`);
  return winner;
}
