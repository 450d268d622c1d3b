/**
 * @file score-rollout: an outcome and everything it names -> one conditional update of its GROUP. The call that completes the group
 * finalizes it. A repeated or late call finds the score recorded and changes nothing.
 *
 *     waits for     an outcome's event, or a scheduled tick that finds the outcome
 *     excluded      failed rollouts, missing or inconsistent objects, and texts that the judge gives no verdict on
 *     run halted    the rewards cannot be opened (no key, no such recipe) or contain an error, or a judge's service refused the request (a
 *                   wrong key, an empty account) or has failed for ten minutes: the user fixes that, and the resumed run asks again
 *     deferred      another process is asking the judge, the judge has just failed, or the store gave an error (a refused write, a damaged
 *                   verdict): a scheduled tick asks again, and no finished rollout is lost
 */
import { randomUUID } from "node:crypto";
import type { RunConfig } from "../core/contracts/config.ts";
import type { Conversation } from "../core/contracts/conversation.ts";
import type { Verdict } from "../core/contracts/judge.ts";
import { objectKeys } from "../core/contracts/keys.ts";
import { parseJson } from "../core/contracts/parse.ts";
import type { Question } from "../core/contracts/question.ts";
import type { GroupRecord, RolloutScore, StepRecord } from "../core/contracts/records.ts";
import {
  type FinishedOutcome,
  Invocation,
  type InvocationRef,
  Outcome,
  type RolloutAddress,
} from "../core/contracts/rollout.ts";
import { isMgrpoError, MgrpoError } from "../core/errors.ts";
import { finalizeGroup } from "../core/mgrpo/finalize.ts";
import type { Rewards, TableItem } from "../core/ports.ts";
import { decideAfterFailure } from "../core/training/judge-failures.ts";
import { expiryOf } from "../core/training/retention.ts";
import {
  appVerdict,
  isComplete,
  isWellFormed,
  requireTurnRewards,
  scoreRollout,
  UNJUDGED,
  usesExpert,
  type Verdicts,
  validateOutcome,
} from "../core/training/score.ts";
import { askForVerdict, unclaimedFailure, type VerdictRequest } from "../core/training/verdict.ts";
import { endRun, finalizeGroupRecord } from "../core/training/writes.ts";
import type { Context } from "./context.ts";
import { longestQueueSeconds } from "./pending-scores.ts";
import { sha256 } from "./run-objects.ts";

/**
 * True when this call finds the group finalized or finalizes it: the caller then ticks. So a repeated call makes up for a crash between the
 * finalization and its tick. Rejects with `judge-failed` if the judge should be asked again.
 */
export async function scoreAndFinalize(context: Context, address: RolloutAddress): Promise<boolean> {
  const score = await scoreOrHalt(context, address);
  if (!score) return false;
  const item = await context.scoreRecorder.record(address, address.rollout, score);
  return item !== undefined && hasAllScores(item) && finalizeIfComplete(context, context.records.parseGroup(item));
}

/** Whether the rollout has a score. */
export async function isScored({ records }: Context, { run, step, group, rollout }: RolloutAddress): Promise<boolean> {
  return (await records.group(run, step, group))?.rollouts[rollout] !== undefined;
}

/** Undefined: there is no score now. */
async function scoreOrHalt(context: Context, address: RolloutAddress): Promise<RolloutScore | undefined> {
  try {
    return await scoreOutcome(context, address);
  } catch (error) {
    if (!isMgrpoError(error, "judge-failed", "rewards-invalid")) throw error;
    const decision = decideAfterFailure(await context.runObjects.config(address.run), error);
    if (decision.kind === "exclude") return { excluded: decision.reason };
    if (decision.kind === "ask-again") throw error;
    await context.table.update(endRun(address.run, decision.halt));
    return undefined;
  }
}

/** Checked before the item is parsed: most updates do not complete their group. */
const hasAllScores = ({ rollouts, rolloutsPerQuestion }: TableItem): boolean =>
  Object.keys(rollouts ?? {}).length >= Number(rolloutsPerQuestion);

/** Also repairs a crash between the last score and the finalization. True when the group is finalized. */
export async function finalizeIfComplete(context: Context, group: GroupRecord): Promise<boolean> {
  if (group.state === "finalized") return true;
  if (!isComplete(group)) return false;
  const { main, agents, algorithm, seed } = await context.runObjects.config(group.run);
  const subs = Object.keys(agents).filter((name) => name !== main);
  const name = [seed, "alignment", group.step, group.group];
  const finalized = finalizeGroup(group.rollouts, main, subs, algorithm, name, agents);
  const expiresAt = expiryOf(await context.clock.storeTime());
  const { item } = await context.table.update(finalizeGroupRecord(group, finalized, expiresAt));
  return item !== undefined && context.records.parseGroup(item).state === "finalized";
}

/**
 * The score of a committed outcome; undefined if there is no verdict now. Throws `judge-failed`, `rewards-invalid`, `not-found`,
 * `canceled` and the store's errors.
 */
async function scoreOutcome(context: Context, address: RolloutAddress): Promise<RolloutScore | undefined> {
  const { runObjects, records, objects } = context;
  const key = objectKeys.outcome(address);
  const [bytes, config, questions, plan] = await Promise.all([
    objects.get(key),
    runObjects.config(address.run),
    runObjects.questions(address.run),
    records.plan(address.run, address.step, address.group),
  ]);
  const question = questions.byId.get(plan?.groups[address.group] ?? "");
  if (!bytes || !plan || !question) throw new MgrpoError("not-found", `${key}: no such outcome in a planned group`);
  const read = await readFinished(context, address, plan, config.main, bytes);
  if ("excluded" in read) return read;
  const { outcome, invocations } = read;
  const outcomeSha256 = sha256(bytes);
  const rewards = await openRewards(context, config, outcomeSha256);
  // A halted run pays for nothing. Once it is resumed, a scheduled tick asks for this score again.
  if (rewards.judge !== undefined && (await records.run(address.run))?.status === "halted") return undefined;
  const ask = askerOf(context, config, rewards.judge, question.id);
  const main = { agent: config.main, conversation: outcome.conversation, sha256: outcomeSha256 };
  const verdicts = await judge(ask, rewards, question, outcome, main, invocations);
  return verdicts && scoreRollout(config, outcome, invocations, verdicts, outcomeSha256);
}

interface FinishedRollout {
  readonly outcome: FinishedOutcome;
  readonly invocations: readonly Invocation[];
}

/** The rollout, or why it is lost: it failed, or its objects are missing or inconsistent. */
async function readFinished(
  context: Context,
  address: RolloutAddress,
  plan: StepRecord,
  main: string,
  bytes: Uint8Array,
): Promise<FinishedRollout | { readonly excluded: string }> {
  try {
    const outcome = parseJson(Outcome, bytes, objectKeys.outcome(address));
    if (outcome.status === "failed") return { excluded: outcome.reason };
    const invocations = await Promise.all(outcome.invocations.map((ref) => readInvocation(context, ref)));
    const fault = validateOutcome(address, plan, main, outcome, invocations);
    return fault === undefined ? { outcome, invocations } : { excluded: `damaged: ${fault}` };
  } catch (error) {
    if (isMgrpoError(error, "record-damaged")) return { excluded: `damaged: ${error.message}` };
    throw error;
  }
}

/** Fails as asking for a verdict does: with `rewards-invalid` if only the user can fix it, or with `judge-failed` and its evidence. */
async function openRewards(context: Context, config: RunConfig, subject: string): Promise<Rewards> {
  try {
    return await context.rewardsOf(config);
  } catch (error) {
    const request = { run: config.run, subject, queueSeconds: longestQueueSeconds(config) };
    if (isMgrpoError(error, "judge-failed")) throw await unclaimedFailure(context, request, error);
    if (!isMgrpoError(error, "config-invalid", "recipe-invalid")) throw error;
    // They opened where the run was started, perhaps on another machine, with other folders and keys.
    const message = `the process that runs the functions, such as cloud serve or dispatch, cannot open the rewards: ${error.message}`;
    throw new MgrpoError("rewards-invalid", message, { cause: error });
  }
}

/** What is judged: an agent's conversation, and the SHA-256 of its object. */
interface Subject {
  readonly agent: string;
  readonly conversation: Conversation;
  readonly sha256: string;
}

type Ask = (subject: Subject, ask: VerdictRequest["ask"]) => Promise<Verdict | undefined>;

function askerOf(context: Context, config: RunConfig, judge: string | undefined, question: string): Ask {
  const { run, limits } = config;
  const request = { run, judge, question, seconds: limits.verdictSeconds, queueSeconds: longestQueueSeconds(config) };
  return async ({ agent, conversation, sha256: subject }, ask) => {
    // A judge costs money, and a rollout is lost if it gives no verdict.
    if (judge !== undefined && agent !== config.main && !usesExpert(config, agent)) return UNJUDGED;
    const check = (verdict: Verdict) => void requireTurnRewards(config, agent, verdict, conversation);
    return askForVerdict(context, { ...request, subject, token: randomUUID(), signal: context.stop, ask, check });
  };
}

/**
 * The correctness of the answer and the expert score of each invocation. Conversations that are not well-formed score 0, and scores given by an
 * app stand: no judge is asked. Nor is it asked about work whose score changes no reward. Undefined if a verdict is missing. A failed request
 * does not abort the others: their verdicts are stored.
 */
async function judge(
  ask: Ask,
  rewards: Rewards,
  question: Question,
  outcome: FinishedOutcome,
  main: Subject,
  invocations: readonly Invocation[],
): Promise<Verdicts | undefined> {
  const { conversation } = main;
  const asked = await Promise.allSettled([
    isWellFormed(conversation)
      ? (appVerdict(outcome) ?? ask(main, (context) => rewards.correct(question, conversation, context)))
      : UNJUDGED,
    ...invocations.map(({ request: { agent }, conversation: sub }, i) => {
      if (!isWellFormed(sub)) return UNJUDGED;
      const subject = { agent, conversation: sub, sha256: outcome.invocations[i]?.sha256 ?? "" };
      const asking = () => ask(subject, (context) => rewards.expert(question, agent, sub, context));
      return appVerdict(outcome, agent) ?? asking();
    }),
  ]);
  const failed = asked.find((one) => one.status === "rejected");
  if (failed) throw failed.reason;
  const verdicts = asked.flatMap((one) => (one.status === "fulfilled" && one.value) || []);
  const [correct, ...experts] = verdicts;
  return correct && verdicts.length === asked.length ? { correct, experts } : undefined;
}

async function readInvocation(
  { objects }: Context,
  { key, id, agent, sha256: expected }: InvocationRef,
): Promise<Invocation> {
  const bytes = await objects.get(key);
  if (!bytes) throw new MgrpoError("record-damaged", `invocation ${key} is referenced but missing`);
  if (sha256(bytes) !== expected)
    throw new MgrpoError("record-damaged", `invocation ${key} is not the one that its outcome refers to`);
  const invocation = parseJson(Invocation, bytes, key);
  if (invocation.id === id && invocation.request.agent === agent) return invocation;
  throw new MgrpoError("record-damaged", `invocation ${key} holds ${invocation.request.agent}'s ${invocation.id}`);
}
