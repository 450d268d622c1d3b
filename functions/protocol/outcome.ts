/** @file Reads an outcome and everything it names, checks that all of it exists and fits, and scores it. What does not fit is lost. */

import { objectKeys } from "../../core/contracts/keys.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import type { RolloutScore } from "../../core/contracts/records.ts";
import { Invocation, type InvocationRef, Outcome, type RolloutAddress } from "../../core/contracts/rollout.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import { isWellFormed, scoreRollout, UNJUDGED, validateOutcome } from "../../core/training/score.ts";
import { verdict } from "../../core/training/verdict.ts";
import type { Context } from "../context.ts";
import { sha256 } from "../sha256.ts";

/** The score of the rollout, from its committed outcome. Throws `judge-failed`, `not-found` and the store's errors. */
export async function scoreOutcome(context: Context, address: RolloutAddress): Promise<RolloutScore> {
  const { facts, records, objects } = context;
  const key = objectKeys.outcome(address);
  const [bytes, config, questions, plan] = await Promise.all([
    objects.get(key),
    facts.config(address.run),
    facts.questions(address.run),
    records.plan(address.run, address.step, address.group),
  ]);
  const question = questions.byId.get(plan?.groups[address.group] ?? "");
  if (!bytes || !plan || !question) throw new MgrpoError("not-found", `${key}: no such outcome in a planned group`);
  try {
    const outcome = parseJson(Outcome, bytes, key);
    if (outcome.status === "failed") return { excluded: outcome.reason };
    const invocations = await Promise.all(outcome.invocations.map((ref) => readInvocation(context, ref)));
    const fault = validateOutcome(address, plan, config.main, outcome, invocations);
    if (fault !== undefined) return { excluded: `damaged: ${fault}` };
    const rewards = await context.rewardsOf(config);
    const ask = verdict.bind(undefined, context, address.run, rewards.judge);
    const { conversation } = outcome;
    const [correct, ...experts] = await Promise.all([
      isWellFormed(conversation) ? ask(sha256(bytes), () => rewards.correct(question, conversation)) : UNJUDGED,
      ...invocations.map(({ request, conversation: sub }, i) =>
        isWellFormed(sub)
          ? ask(outcome.invocations[i]?.sha256 ?? "", () => rewards.expert(question, request.agent, sub))
          : UNJUDGED,
      ),
    ]);
    return scoreRollout(config.algorithm, outcome, invocations, { correct, experts }, sha256(bytes));
  } catch (error) {
    if (isMgrpoError(error, "record-damaged")) return { excluded: `damaged: ${error.message}` };
    throw error;
  }
}

async function readInvocation(
  { objects }: Context,
  { key, id, agent, sha256: expected }: InvocationRef,
): Promise<Invocation> {
  const bytes = await objects.get(key);
  if (!bytes) throw new MgrpoError("record-damaged", `invocation ${key} is named but not there`);
  if (sha256(bytes) !== expected)
    throw new MgrpoError("record-damaged", `invocation ${key} is not the one that was named`);
  const invocation = parseJson(Invocation, bytes, key);
  if (invocation.id === id && invocation.request.agent === agent) return invocation;
  throw new MgrpoError("record-damaged", `invocation ${key} holds ${invocation.request.agent}'s ${invocation.id}`);
}
