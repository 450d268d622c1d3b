/**
 * @file One rollout: the whole team on one question, each agent at its pinned version, ending in an Outcome. The agents' own failures give
 * a finished outcome. Infrastructure failures end the attempt and never become text.
 */
import { boundReason } from "../../core/contracts/bounds.ts";
import { agentsBelow } from "../../core/contracts/delegation.ts";
import type { FinishedOutcome, Outcome } from "../../core/contracts/rollout.ts";
import { type ErrorCode, isMgrpoError, MgrpoError, refusalOf } from "../../core/errors.ts";
import type { Delegation } from "../../core/ports.ts";
import { type AppHost, runApp } from "../gateway/app-rollout.ts";
import { type TimeLimit, timeLimitAfter } from "../limits.ts";
import type { RunContext } from "../run-context.ts";
import { type HostedAgent, runConversation } from "./agent.ts";
import { type Caller, delegateOf } from "./delegate.ts";
import type { RolloutPlan } from "./rollout-plan.ts";
import { samplingOf } from "./sampling.ts";

/** Where rollouts run: the main agent here, its sub-agents behind a port. */
export interface RolloutHost {
  readonly run: RunContext;
  readonly agent: HostedAgent;
  readonly delegation: Delegation;
  /** The app that runs the rollouts. Absent: this program does. */
  readonly app?: AppHost;
  /** Whether every sub-agent has a live worker. Attempts that fail without one do not count. */
  hasLiveSubAgents(): boolean;
}

const INFRASTRUCTURE: readonly ErrorCode[] = [
  ...([
    "deadline",
    "tool-backend",
    "app-failed",
    "endpoint-unavailable",
    "worker-unavailable",
    "prefix-drift",
  ] as const),
];

/** Infrastructure failures that another attempt may avoid. */
export const isInfrastructureFailure = (error: unknown): error is MgrpoError =>
  isMgrpoError(error, ...INFRASTRUCTURE) && refusalOf(error) === undefined;

/** Called after each failed attempt that counts, except the last; false: the rollout rejects with the error. */
export type ShouldRetry = (error: MgrpoError, attempt: number) => boolean;

/**
 * Attempts a rollout until it finishes, at most `limits.attempts` times; then its outcome is `failed`, with the last reason. Rejects with
 * `canceled` when the signal aborts, with the cause if `shouldRetry` returns false, and immediately on a refusal, which no retry can fix.
 */
export async function attemptRollout(
  host: RolloutHost,
  plan: RolloutPlan,
  signal: AbortSignal,
  shouldRetry: ShouldRetry,
): Promise<Outcome> {
  const { config, store, log } = host.run;
  const { address, question } = plan;
  for (let attempt = 1; ; ) {
    const deadline = timeLimitAfter(plan.opened ?? Promise.resolve(), config.limits.rolloutSeconds);
    try {
      return await runOnce(host, plan, AbortSignal.any([signal, deadline.signal]));
    } catch (error) {
      const failure = failureOf(error, deadline, config.limits.rolloutSeconds, signal);
      const rollout = `${address.step}/${address.group}/${address.rollout}`;
      log.warn("attempt failed", { rollout, attempt, code: failure.code, reason: failure.message });
      if (host.hasLiveSubAgents()) {
        if (attempt >= config.limits.attempts) {
          const reason = `infrastructure, ${attempt} attempt${attempt === 1 ? "" : "s"}: ${failure.message}`;
          return { status: "failed", address, questionId: question.id, reason: boundReason(reason) };
        }
        if (!shouldRetry(failure, attempt)) throw failure;
        attempt += 1;
      }
      await store.clock.sleep(Math.min(0.1 * 2 ** attempt, 5), signal);
    } finally {
      deadline.end();
    }
  }
}

function runOnce(host: RolloutHost, plan: RolloutPlan, signal: AbortSignal): Promise<FinishedOutcome> {
  return host.app ? runApp(host.app, plan, signal) : runNative(host, plan, signal);
}

async function runNative(host: RolloutHost, plan: RolloutPlan, signal: AbortSignal): Promise<FinishedOutcome> {
  const { agent, run, delegation } = host;
  const { address, question, closedBook, opened } = plan;
  const below = pinnedBelow(host, plan);
  const caller = { address, questionId: question.id, closedBook, path: [], below, opened };
  const { conversation, trajectory, invocations } = await runConversation(
    agent,
    {
      address,
      version: versionOf(plan, agent.name),
      question,
      prompt: question.prompt,
      delegate: delegateOf(delegation, run.config.agents, caller),
      sampling: samplingOf(plan, agent.name),
      purpose: plan.purpose,
      path: [],
      closedBook,
      allowance: agent.allowance,
    },
    signal,
  );
  return { status: "finished", address, questionId: question.id, conversation, trajectory, invocations };
}

/** What the plan pins for every sub-agent. */
function pinnedBelow({ run, agent: main }: RolloutHost, plan: RolloutPlan): Caller["below"] {
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

/** Why an attempt failed. Rethrows errors that no retry can fix, and `canceled` if the signal has aborted. */
function failureOf(error: unknown, deadline: TimeLimit, seconds: number, signal: AbortSignal): MgrpoError {
  if (signal.aborted) throw new MgrpoError("canceled", "the rollout was stopped", { cause: error });
  if (deadline.signal.aborted) {
    return new MgrpoError("deadline", `the rollout took more than limits.rolloutSeconds ${seconds}`);
  }
  if (!isInfrastructureFailure(error)) throw error;
  return error;
}
