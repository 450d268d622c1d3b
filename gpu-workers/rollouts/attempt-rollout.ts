/**
 * @file One rollout: the whole team on one question, each agent at its pinned version, attempted until it ends in an Outcome. The agents' own
 * failures give a finished outcome. Infrastructure failures end the attempt and never become text.
 */
import { withAnySignal } from "../../core/any-signal.ts";
import { boundReason } from "../../core/contracts/bounds.ts";
import type { FinishedOutcome, Outcome } from "../../core/contracts/rollout.ts";
import { type ErrorCode, isMgrpoError, MgrpoError, refusalOf } from "../../core/errors.ts";
import { type TimeLimit, timeLimitAfter } from "../limits.ts";
import type { RunContext } from "../run-context.ts";
import type { RolloutPlan } from "./rollout-plan.ts";

/** One attempt, by this program (`native-attempt.ts`) or by an app (`gateway/`). Rejects when infrastructure fails. */
export type RunAttempt = (plan: RolloutPlan, signal: AbortSignal) => Promise<FinishedOutcome>;

/** Where rollouts run. */
export interface RolloutHost {
  readonly run: RunContext;
  readonly runAttempt: RunAttempt;
  /** Whether each of these agents, and each one below them, has a live worker. By default: every sub-agent. */
  hasLiveSubAgents(agents?: Iterable<string>): boolean;
  /** Dead workers of the sub-agents, by id. */
  deadSubAgents(): readonly string[];
}

const INFRASTRUCTURE: readonly ErrorCode[] = [
  "deadline",
  "tool-backend",
  "app-failed",
  "endpoint-unavailable",
  "worker-unavailable",
  "session-lost",
  "prefix-drift",
];

/** Infrastructure failures that another attempt may avoid. */
export const isInfrastructureFailure = (error: unknown): error is MgrpoError =>
  isMgrpoError(error, ...INFRASTRUCTURE) && refusalOf(error) === undefined;

/** Called after each failed attempt that counts, except the last. False: no further attempt. */
export type ShouldRetry = (error: MgrpoError, attempt: number) => boolean;

/**
 * Attempts a rollout until it finishes; after `limits.attempts` attempts that count, its outcome is `failed`, with the last reason. Rejects with
 * `canceled` when the signal aborts, with the attempt's error if `shouldRetry` returns false, and at once on an error that no retry can fix.
 */
export async function attemptRollout(
  host: RolloutHost,
  plan: RolloutPlan,
  signal: AbortSignal,
  shouldRetry: ShouldRetry,
): Promise<Outcome> {
  const { config, store, log } = host.run;
  const { address, question } = plan;
  let failures = 0;
  for (let attempt = 1; ; ) {
    const deadline = timeLimitAfter(plan.opened ?? Promise.resolve(), config.limits.rolloutSeconds);
    const deadBefore = host.deadSubAgents();
    const unanswered = new Map<string, string>();
    try {
      return await withAnySignal([signal, deadline.signal], (either) =>
        host.runAttempt({ ...plan, unanswered }, either),
      );
    } catch (error) {
      const failure = failureOf(error, deadline, config.limits.rolloutSeconds, signal);
      const rollout = `${address.step}/${address.group}/${address.rollout}`;
      log.warn("attempt failed", { rollout, attempt, code: failure.code, reason: failure.message });
      failures += 1;
      // An attempt that runs out of time while a sub-agent that it waits for, or one below that, lacks a worker does not count, unless a
      // worker died meanwhile: it may have died of the rollout.
      const lacksWorker = isMgrpoError(failure, "deadline") && !host.hasLiveSubAgents(unanswered.values());
      if (!lacksWorker || host.deadSubAgents().some((worker) => !deadBefore.includes(worker))) {
        if (attempt >= config.limits.attempts) {
          const reason = `infrastructure, ${attempt} attempt${attempt === 1 ? "" : "s"}: ${failure.message}`;
          return { status: "failed", address, questionId: question.id, reason: boundReason(reason) };
        }
        if (!shouldRetry(failure, attempt)) throw failure;
        attempt += 1;
      }
      await store.clock.sleep(Math.min(0.2 * 2 ** failures, 5), signal);
    } finally {
      deadline.end();
    }
  }
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
