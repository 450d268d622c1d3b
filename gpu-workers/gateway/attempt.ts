/**
 * @file One attempt of an app at a question: routes its requests to the team's agents, keeps what was delivered, and turns the end of the
 * attempt into an outcome.
 *
 *     open ──requests──> turns of each agent ──app returns──> ended: branches ──> outcome
 *       └── the app throws (except because of a limit), a turn has an outage, or time is up ──> discarded: nothing is recorded
 */
import { linkSignals } from "../../core/any-signal.ts";
import type { AgentSession, EndedSession, TurnReply, TurnRequest } from "../../core/contracts/app-chat.ts";
import type { AppResult, GivenRewards } from "../../core/contracts/app-rollout.ts";
import type { Conversation } from "../../core/contracts/conversation.ts";
import { canonicalJson } from "../../core/contracts/parse.ts";
import type { AppRecord, FinishedOutcome } from "../../core/contracts/rollout.ts";
import { errorText, isMgrpoError, MgrpoError } from "../../core/errors.ts";
import { type Branch, callTextsIn, trajectoriesOf, turnsOf } from "../../core/gateway/branch.ts";
import { answerIn, splitThinking } from "../../core/gateway/reply.ts";
import { sha256 } from "../../engine/hash.ts";
import type { RolloutPlan } from "../rollouts/rollout-plan.ts";
import { samplingOf } from "../rollouts/sampling.ts";
import type { Sessions } from "./agent-sessions.ts";
import { RewardLedger } from "./given-rewards.ts";
import { LimitReached, type SessionLimit } from "./limit-reached.ts";
import type { SubAgent } from "./sub-agents.ts";

/** The team that an app talks to. */
export interface AppTeam {
  readonly main: { readonly name: string; readonly sessions: Sessions };
  readonly subs: ReadonlyMap<string, SubAgent>;
}

export class Attempt {
  readonly id: string;
  readonly plan: RolloutPlan;
  readonly #team: AppTeam;
  readonly #closed = new AbortController();
  /** Agent -> exchanges whose replies reached the app. */
  readonly #delivered = new Map<string, Set<string>>();
  readonly #deliveries = new Set<Promise<void>>();
  readonly #rewards: RewardLedger;
  /** The last limit that an agent reached: the team's own failure, if the app then gives up. */
  #limit: LimitReached | undefined;
  /** The error messages that the app got for all limits that agents reached. */
  readonly #limitMessages = new Set<string>();
  /** The main agent has replied to a request that was made after the limit was reached. */
  #hasContinued = false;
  /** Failures that were reported to the app, by request. A later reply to the same request removes its failure. */
  readonly #faults = new Map<string, MgrpoError>();

  constructor(id: string, team: AppTeam, plan: RolloutPlan) {
    this.id = id;
    this.plan = plan;
    this.#team = team;
    this.#rewards = new RewardLedger(team.subs.keys());
  }

  get agents(): readonly string[] {
    return [this.#team.main.name, ...this.#team.subs.keys()];
  }

  /**
   * Whether what the app threw is due to a limit that an agent reached. If the app has since continued with the main agent, only if
   * the error has the message of such a limit.
   */
  gaveUp(error: unknown): boolean {
    if (!this.#hasContinued) return this.#limit !== undefined;
    return [...this.#limitMessages].some((message) => mentions(error, message));
  }

  /** A request that was refused, which may be why the app failed. */
  get refusal(): MgrpoError | undefined {
    return [...this.#faults.values()].find((fault) => isMgrpoError(fault, "request-refused"));
  }

  /** An infrastructure failure. The app may have continued after it: frameworks turn the error of a sub-agent into text for the main agent. */
  get outage(): MgrpoError | undefined {
    return [...this.#faults.values()].find((fault) => !isMgrpoError(fault, "request-refused"));
  }

  /** Rejects with `LimitReached`, a MgrpoError, or an unexpected error, which is an outage too. */
  async turn(agent: string, request: TurnRequest, signal: AbortSignal): Promise<TurnReply> {
    const { main } = this.#team;
    const session = this.#session(agent);
    const key = sha256(canonicalJson([agent, request]));
    const { unanswered } = this.plan;
    const limit = this.#limit;
    if (agent !== main.name) unanswered?.set(key, agent);
    const { signal: until, unlink } = linkSignals(signal, this.#closed.signal);
    try {
      const sessions = agent === main.name ? main.sessions : this.#sub(agent);
      const reply = await sessions.turn(session, request, until);
      this.#faults.delete(key);
      unanswered?.delete(key);
      if (agent === main.name && limit === this.#limit) this.#hasContinued = limit !== undefined;
      return reply;
    } catch (error) {
      if (error instanceof LimitReached) {
        unanswered?.delete(key);
        this.#limit = error;
        this.#limitMessages.add(error.message);
        this.#hasContinued = false;
      } else if (!until.aborted) {
        if (isMgrpoError(error, "request-refused")) unanswered?.delete(key);
        this.#faults.set(key, turnFault(agent, error));
      }
      throw error;
    } finally {
      unlink();
    }
  }

  /** A reply is on its way to the app. It counts once it has arrived. */
  delivering(agent: string, exchange: string, delivery: Promise<boolean>): void {
    const settled = delivery.then((hasArrived) => {
      this.#deliveries.delete(settled);
      if (!hasArrived || this.#closed.signal.aborted) return;
      const exchanges = this.#delivered.get(agent) ?? new Set();
      this.#delivered.set(agent, exchanges.add(exchange));
    });
    this.#deliveries.add(settled);
  }

  /** Undefined, or why the rewards are refused. */
  giveRewards(given: GivenRewards): string | undefined {
    return this.#rewards.give(given);
  }

  /** The reward that the app has given the rollout. */
  get reward(): number | undefined {
    return this.#rewards.given().reward;
  }

  /** Resolves when every reply on its way has arrived or was lost. */
  async settled(): Promise<void> {
    await Promise.all(this.#deliveries);
  }

  /** From now on, no request is answered. */
  close(): void {
    this.#closed.abort();
  }

  /** Closes the attempt and discards its sessions. */
  discard(): void {
    this.close();
    this.#team.main.sessions.discard(this.id);
    for (const [name, sub] of this.#team.subs) sub.discard(this.#session(name));
  }

  /**
   * Commits the sub-agents' conversations. The rewards in `result` have been given already (`giveRewards`). `result` undefined: the app gave
   * up because of a limit that was reported to it.
   */
  async outcome(result: AppResult | undefined, signal: AbortSignal): Promise<FinishedOutcome> {
    const { main, subs } = this.#team;
    const { branches: mainBranches, counts } = main.sessions.end(this.id, this.#deliveredBy(main.name));
    const own = answeringLast(mainBranches, result);
    const callTexts = callTextsIn(own);
    const ended = await Promise.all(
      [...subs].map(async ([name, sub]) => {
        const end = await sub.end(this.#session(name), { delivered: this.#deliveredBy(name), callTexts }, signal);
        return [name, end] as const;
      }),
    );
    const { address, question } = this.plan;
    const { version } = this.#session(main.name);
    const [trajectory, ...branches] = trajectoriesOf(main.name, version, own);
    const given = this.#rewards.given();
    return {
      status: "finished",
      address,
      questionId: question.id,
      conversation: mainConversation(question.prompt, own, result, this.#limit?.limit, given.reward !== undefined),
      trajectory: trajectory ?? { agent: main.name, version, tokens: [], actions: [], logProbs: [] },
      invocations: ended.flatMap(([, { invocations }]) => invocations),
      app: appRecord(given, branches, [[main.name, { counts }], ...ended]),
    };
  }

  #deliveredBy(agent: string): string[] {
    return [...(this.#delivered.get(agent) ?? [])].sort();
  }

  #sub(agent: string): SubAgent {
    const sub = this.#team.subs.get(agent);
    if (sub) return sub;
    throw new MgrpoError("config-invalid", `this team has no agent '${agent}'`);
  }

  #session(agent: string): AgentSession {
    const { address, question, versions } = this.plan;
    const version = versions[agent];
    if (version === undefined) {
      throw new MgrpoError("record-damaged", `step ${address.step} pins no version of '${agent}'`);
    }
    return {
      id: this.id,
      run: address.run,
      address,
      questionId: question.id,
      agent,
      version,
      sampling: samplingOf(this.plan, agent),
    };
  }
}

/** An unexpected error costs the attempt, not the worker: the app's request may be what caused it. */
export function turnFault(agent: string, cause: unknown): MgrpoError {
  if (isMgrpoError(cause)) return cause;
  const why = errorText(cause);
  return new MgrpoError("session-lost", `a turn of agent '${agent}' failed: ${why}`, { retryable: true, cause });
}

/** Frameworks wrap errors a few times. A chain of causes may also be circular. */
const MAX_CAUSES = 10;

/** Whether the error, or one that caused it, has the text. */
function mentions(error: unknown, text: string, causes = MAX_CAUSES): boolean {
  if (!(error instanceof Error)) return typeof error === "string" && error.includes(text);
  return error.message.includes(text) || (causes > 0 && mentions(error.cause, text, causes - 1));
}

function appRecord(
  given: GivenRewards,
  branches: AppRecord["branches"],
  ended: readonly (readonly [string, Pick<EndedSession, "counts">])[],
): AppRecord {
  return {
    branches,
    ...given,
    counts: Object.fromEntries(ended.map(([name, { counts }]) => [name, counts])),
  };
}

/** The main agent's branches. The last is where the app's answer comes from: the longest whose last reply has it, or else the longest of all. */
function answeringLast(branches: readonly Branch[], result: AppResult | undefined): Branch[] {
  const answer = result && "answer" in result ? result.answer.trim() : "";
  const answering = branches.filter((branch) => branch.at(-1)?.turn.text.includes(answer));
  const candidates = answering.length > 0 ? answering : branches;
  const [last] = candidates.toSorted((a, b) => lengthOf(b) - lengthOf(a));
  return last ? [...branches.filter((branch) => branch !== last), last] : [];
}

const lengthOf = (branch: Branch) => branch.at(-1)?.messages.length ?? 0;

/**
 * The conversation of the main agent's last branch. Its answer is the app's, or, if the app returned only rewards, the answer in the last reply.
 * It may be empty if the app gave the rollout a reward.
 */
function mainConversation(
  prompt: string,
  branches: readonly Branch[],
  result: AppResult | undefined,
  limit: SessionLimit | undefined,
  isRewarded: boolean,
): Conversation {
  const last = branches.at(-1) ?? [];
  const turns = turnsOf(last);
  if (!result) return { prompt, turns, stop: limit ?? "malformed", answer: null, fault: null };
  if ("failed" in result) return { prompt, turns, stop: "malformed", answer: null, fault: result.failed };
  const { text } = splitThinking(last.at(-1)?.turn.text ?? "");
  const answer = "answer" in result ? result.answer : answerIn(text);
  if (answer.trim() !== "" || isRewarded) return { prompt, turns, stop: "answered", answer, fault: null };
  return { prompt, turns, stop: "malformed", answer: null, fault: "the app returned an empty answer" };
}
