/** @file An attempt at a rollout that this program runs: the main agent in this process, its sub-agents through a `Delegation`. */
import { agentsBelow } from "../../core/contracts/delegation.ts";
import type { FinishedOutcome } from "../../core/contracts/rollout.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Delegation } from "../../core/ports.ts";
import type { RunContext } from "../run-context.ts";
import { type HostedAgent, runConversation } from "./agent.ts";
import type { Delegate } from "./answer-calls.ts";
import type { RunAttempt } from "./attempt-rollout.ts";
import { type Caller, delegateOf } from "./delegate.ts";
import type { RolloutPlan } from "./rollout-plan.ts";
import { samplingOf } from "./sampling.ts";

export interface NativeTeam {
  readonly run: RunContext;
  readonly main: HostedAgent;
  readonly delegation: Delegation;
}

/** Attempts by this program. */
export const nativeAttempts =
  (team: NativeTeam): RunAttempt =>
  (plan, signal) =>
    runNative(team, plan, signal);

async function runNative(team: NativeTeam, plan: RolloutPlan, signal: AbortSignal): Promise<FinishedOutcome> {
  const { main, run, delegation } = team;
  const { address, question, closedBook, opened } = plan;
  const below = pinnedBelow(team, plan);
  const caller = { address, questionId: question.id, closedBook, path: [], below, opened };
  const { conversation, trajectory, invocations } = await runConversation(
    main,
    {
      address,
      version: versionOf(plan, main.name),
      question,
      prompt: question.prompt,
      delegate: trackUnanswered(plan, delegateOf(delegation, run.config.agents, caller)),
      sampling: samplingOf(plan, main.name),
      purpose: plan.purpose,
      path: [],
      closedBook,
      allowance: main.allowance,
    },
    signal,
  );
  return { status: "finished", address, questionId: question.id, conversation, trajectory, invocations };
}

/** Notes in the plan which calls are not answered yet. */
function trackUnanswered({ unanswered }: RolloutPlan, delegate: Delegate): Delegate {
  return async (request, signal) => {
    const call = String(request.call);
    unanswered?.set(call, request.agent);
    const report = await delegate(request, signal);
    unanswered?.delete(call);
    return report;
  };
}

/** What the plan pins for every sub-agent. */
function pinnedBelow({ run, main }: NativeTeam, plan: RolloutPlan): Caller["below"] {
  const pins = agentsBelow(run.config.agents, main.name).map((name) => {
    return [name, { version: versionOf(plan, name), sampling: samplingOf(plan, name) }] as const;
  });
  return Object.fromEntries(pins);
}

function versionOf({ versions, address }: RolloutPlan, agent: string): number {
  const version = versions[agent];
  if (version !== undefined) return version;
  throw new MgrpoError("record-damaged", `step ${address.step} pins no version of '${agent}'`);
}
