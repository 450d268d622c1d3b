/**
 * @file Rewards from a model, for a recipe without a scoring program: the model compares answers with references, and
 * scores subtasks (eq 5).
 */
import { createHash } from "node:crypto";
import type { Conversation } from "../../core/contracts/conversation.ts";
import type { JudgeConfig } from "../../core/contracts/judge.ts";
import { canonicalJson } from "../../core/contracts/parse.ts";
import type { Question } from "../../core/contracts/question.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Rewards } from "../../core/ports.ts";
import type { JudgeInput } from "./prompt.ts";
import { type Judge, type Judged, judgeCorrectness, judgeQuality } from "./vote.ts";

/** Throws `config-invalid` without criteria. Verdicts are stored under the judge's name: a stored one is not requested again. */
export function judgedRewards(judge: Judge): Rewards {
  const { criteria } = judge.config;
  if (!criteria) {
    throw new MgrpoError(
      "config-invalid",
      "judge.criteria is missing: set it to judgeCriteria(), or to your own texts",
    );
  }
  return {
    judge: judgeName(judge.config, criteria),
    correct: (question, { answer }, context) =>
      isExactMatch(answer, question.answer)
        ? 1
        : judgeCorrectness(judge, criteria.correct, correctnessInput(question, answer), context),
    expert: (_question, _agent, conversation, context) =>
      judgeQuality(judge, criteria.expert, judgedWork(conversation), context),
  };
}

/**
 * Names a judge by what decides its verdicts: the model and its server, the votes, the sampling and the criteria. Prices, keys, timeouts, attempts
 * and the way JSON is requested do not change the name.
 */
export function judgeName({ model, votes, temperature, maxTokens }: JudgeConfig, criteria: unknown): string {
  const { keyVariable: _, timeoutSeconds: _seconds, attempts: _attempts, json: _json, ...identity } = model;
  const text = canonicalJson({ asked: identity, votes, temperature, maxTokens, criteria });
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}

function correctnessInput({ prompt, answer: reference }: Question, answer: string | null): JudgeInput {
  return { question: prompt, reference, answer: answer ?? "" };
}

/** Whether the answer is the reference, apart from surrounding space: then there is nothing to judge. */
export const isExactMatch = (answer: string | null, reference: string): boolean => answer?.trim() === reference.trim();

/** For servers that refuse the text of a page or a tool: an agent's work can be judged without it. */
const LEFT_OUT = "(left out: the judge's server refuses to read it)";

function judgedWork(conversation: Conversation): Judged {
  return {
    input: workOf(conversation, (text) => text),
    withoutQuotations: workOf(conversation, () => LEFT_OUT),
  };
}

function workOf({ prompt, turns, answer }: Conversation, quote: (text: string) => string): JudgeInput {
  const steps = turns.map(({ text, responses }) => ({
    said: text,
    responses: responses.map((response) => ({ tool: response.name, text: quote(response.text) })),
  }));
  return { task: prompt, steps, report: answer ?? "" };
}
