/**
 * @file A rollout that an app runs. An app that throws, or whose time is up, is a failure of infrastructure: the attempt leaves nothing
 * behind and is tried again. So is an app that carries on after an agent failed to reply. An app that gives up because an agent reached a
 * limit, or returns `failed`, is the team's own failure; a remote app whose connection is lost has not given up. A result that is invalid,
 * or whose rewards are refused, halts the run: no retry can fix it.
 */
import type { AppCall } from "../../core/contracts/app-rollout.ts";
import { AppResult } from "../../core/contracts/app-rollout.ts";
import { parse } from "../../core/contracts/parse.ts";
import type { FinishedOutcome } from "../../core/contracts/rollout.ts";
import { errorText, isMgrpoError, MgrpoError } from "../../core/errors.ts";
import { cancelable } from "../limits.ts";
import type { RunAttempt } from "../rollouts/attempt-rollout.ts";
import type { RolloutPlan } from "../rollouts/rollout-plan.ts";
import type { AppTeam, Attempt } from "./attempt.ts";
import type { OpenAttempts } from "./attempts.ts";

/** Runs an app on one question. */
export interface AppRunner {
  /** Whether the app itself counts `AppCall.seconds`, starting at the call. Such an app is called once the attempt's time limit starts. */
  readonly isTimed?: boolean;
  /** What it returns, unchecked. */
  run(call: AppCall, signal: AbortSignal): Promise<unknown>;
}

export interface AppHost {
  readonly team: AppTeam;
  readonly attempts: OpenAttempts;
  readonly runner: AppRunner;
  /** The time limit of an attempt. */
  readonly seconds: number;
}

/** The evidence of an `app-failed`, if a remote app answered with an error: its HTTP status. */
export interface AnsweredError {
  readonly status: number;
}

/** What a proxy answers if it cannot reach the app, or has waited too long for it. */
const PROXY_STATUSES: readonly number[] = [502, 503, 504];

/** Attempts by an app. */
export const appAttempts =
  (host: AppHost): RunAttempt =>
  (plan, signal) =>
    runApp(host, plan, signal);

async function runApp(host: AppHost, plan: RolloutPlan, signal: AbortSignal): Promise<FinishedOutcome> {
  const { attempt, agents } = host.attempts.open(host.team, plan);
  try {
    const result = await resultOf(host, attempt, agents, signal);
    await cancelable(attempt.settled(), signal);
    host.attempts.close(attempt);
    // A reward may have arrived while the attempt settled.
    if (result && "failed" in result) refuseReward(attempt);
    return await attempt.outcome(result, signal);
  } finally {
    host.attempts.close(attempt);
    attempt.discard();
  }
}

/** Undefined: the app gave up because of a limit that was reported to it. */
async function resultOf(
  { runner, seconds }: AppHost,
  attempt: Attempt,
  agents: AppCall["agents"],
  signal: AbortSignal,
): Promise<AppResult | undefined> {
  const { id, kind, level, prompt, facts } = attempt.plan.question;
  const call: AppCall = { question: { id, kind, level, prompt, facts }, agents, seconds };
  if (runner.isTimed) await cancelable(attempt.plan.opened ?? Promise.resolve(), signal);
  let returned: unknown;
  try {
    returned = await cancelable(runner.run(call, signal), signal);
  } catch (error) {
    if (signal.aborted) throw error;
    if (attempt.outage) throw attempt.outage;
    if (mayHaveGivenUp(error) && attempt.gaveUp(error)) return undefined;
    if (isMgrpoError(error)) throw error;
    const why = errorText(error);
    const { refusal } = attempt;
    const also = refusal ? `; one of its requests was refused: ${refusal.message}` : "";
    const message = `the app failed on question '${id}': ${why}${also}`;
    throw new MgrpoError("app-failed", message, { retryable: true, cause: error });
  }
  if (attempt.outage) throw attempt.outage;
  const result = parse(
    AppResult,
    withoutUndefined(returned),
    `what the app returned for question '${id}'`,
    "app-failed",
  );
  giveRewards(attempt, result);
  return result;
}

/** Gives the attempt the rewards in the result. Throws if they are refused. */
function giveRewards(attempt: Attempt, result: AppResult): void {
  if ("failed" in result) {
    refuseReward(attempt);
    return;
  }
  const { reward, rewards } = result;
  const fault = attempt.giveRewards({ ...(reward !== undefined && { reward }), ...(rewards && { rewards }) });
  if (fault !== undefined) throw appFault(attempt, fault);
}

/** Throws if a failed attempt has a reward above 0. */
function refuseReward(attempt: Attempt): void {
  const { reward } = attempt;
  if (!reward) return;
  throw appFault(
    attempt,
    `the app gave reward ${reward} and then returned { failed }, which means reward 0: return the answer, or { reward: ${reward} }`,
  );
}

const appFault = ({ plan }: Attempt, fault: string) =>
  new MgrpoError("app-failed", `question '${plan.question.id}': ${fault}`);

/** Drops undefined properties, as JSON does, from a result and from its `rewards`. */
function withoutUndefined(value: unknown, levels = 2): unknown {
  if (levels === 0 || value === null || typeof value !== "object" || Array.isArray(value)) return value;
  const set = Object.entries(value).filter(([, one]) => one !== undefined);
  return Object.fromEntries(set.map(([name, one]) => [name, withoutUndefined(one, levels - 1)]));
}

/**
 * Whether the error may mean that the app gave up. It does not if a remote app's connection was lost, a proxy answered, the call was
 * refused (401, 409, 413), or the answer is invalid.
 */
function mayHaveGivenUp(error: unknown): boolean {
  if (!isMgrpoError(error, "app-failed")) return true;
  const { status } = (error.evidence ?? {}) as Partial<AnsweredError>;
  return status !== undefined && !PROXY_STATUSES.includes(status);
}
