/**
 * @file One rollout: the whole team on one question, each agent at its pinned version, up to an Outcome. What the agents do wrong
 * is theirs and ends in a finished outcome; what infrastructure does wrong spoils the attempt and never reaches the text.
 */
import type { Question } from "../../core/contracts/question.ts";
import type {
  FinishedOutcome,
  InvocationRequest,
  Outcome,
  RolloutAddress,
  Sampling,
} from "../../core/contracts/rollout.ts";
import { isMgrpoError, MgrpoError, refusalOf } from "../../core/errors.ts";
import type { Delegation } from "../../core/ports.ts";
import type { StreamName } from "../../core/random.ts";
import { invocationId } from "../identity.ts";
import { limitAfter } from "../limits.ts";
import type { Run } from "../run.ts";
import { type Agent, talk } from "./agent.ts";
import type { Delegate } from "./converse.ts";

export interface RolloutPlan {
  readonly address: RolloutAddress;
  readonly question: Question;
  /** The one version of each agent. */
  readonly versions: Readonly<Record<string, number>>;
  readonly sampling: Sampling;
  readonly purpose: StreamName;
  readonly closedBook: boolean;
  /** From when on time limits count; absent: from the beginning. */
  readonly opened?: Promise<unknown>;
}

/** Where rollouts run: the asked agent here, its sub-agents behind a port. */
export interface Team {
  readonly run: Run;
  readonly agent: Agent;
  readonly delegation: Delegation;
  /** False while some sub-agent has no live worker: then nobody is to blame for an attempt. */
  complete(): boolean;
}

async function rollOut({ agent, delegation }: Team, plan: RolloutPlan, signal: AbortSignal): Promise<FinishedOutcome> {
  const { address, question, versions, sampling, closedBook } = plan;
  const versionOf = (name: string) => {
    const version = versions[name];
    if (version === undefined)
      throw new MgrpoError("record-damaged", `step ${address.step} pins no version of '${name}'`);
    return version;
  };
  const delegate: Delegate = async ({ agent: name, task, call, allowance }, cancelled) => {
    const version = versionOf(name);
    const request: InvocationRequest = {
      address,
      questionId: question.id,
      agent: name,
      version,
      call,
      task,
      sampling,
      closedBook,
      ...(allowance && { allowance }),
    };
    return delegation.invoke(invocationId(request), request, cancelled, plan.opened);
  };
  const { conversation, trajectory, invocations } = await talk(
    agent,
    { ...plan, version: versionOf(agent.name), prompt: question.prompt, delegate, allowance: agent.allowance },
    signal,
  );
  return { status: "finished", address, questionId: question.id, conversation, trajectory, invocations };
}

/** Failures of infrastructure, which another attempt may be spared. */
export const isInfrastructure = (error: unknown): error is MgrpoError =>
  isMgrpoError(error, "deadline", "tool-backend", "endpoint-unavailable", "worker-unavailable", "prefix-drift") &&
  refusalOf(error) === undefined;

/** Told of each spoiled attempt; returns false to stop trying here. */
export type Spoiled = (error: MgrpoError, attempt: number) => boolean;

/**
 * Attempts a rollout until it ends, at most `limits.attempts` times; then it has failed, with the last reason. Attempts made
 * while the team was incomplete do not count. Rejects with `cancelled` when the signal aborts, with the cause when
 * `spoiled` says to stop, and at once with a refusal, which no other attempt is spared.
 */
export async function attemptRollout(
  team: Team,
  plan: RolloutPlan,
  signal: AbortSignal,
  spoiled: Spoiled,
): Promise<Outcome> {
  const { config, store, log } = team.run;
  const { address, question } = plan;
  for (let attempt = 1; ; ) {
    const wallClock = limitAfter(plan.opened ?? Promise.resolve(), config.limits.rolloutSeconds);
    try {
      return await rollOut(team, plan, AbortSignal.any([signal, wallClock.signal]));
    } catch (error) {
      if (signal.aborted) throw new MgrpoError("cancelled", "the rollout was stopped", { cause: error });
      const late = wallClock.signal.aborted
        ? new MgrpoError("deadline", `the rollout took more than limits.rolloutSeconds ${config.limits.rolloutSeconds}`)
        : error;
      if (!isInfrastructure(late)) throw error;
      const where = `${address.step}/${address.group}/${address.rollout}`;
      log.warn("attempt spoiled", { rollout: where, attempt, code: late.code, reason: late.message });
      if (team.complete()) {
        if (attempt >= config.limits.attempts) {
          const reason = `infrastructure, ${attempt} attempt${attempt === 1 ? "" : "s"}: ${late.message}`;
          return { status: "failed", address, questionId: question.id, reason };
        }
        if (!spoiled(late, attempt)) throw late;
        attempt += 1;
      }
      await store.clock.sleep(Math.min(0.1 * 2 ** attempt, 5), signal);
    } finally {
      wallClock.end();
    }
  }
}
