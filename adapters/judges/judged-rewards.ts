/** @file Rewards of a recipe without a program to judge by: a model compares answers with references, and looks at subtasks (eq 5). */
import { createHash } from "node:crypto";
import type { Conversation } from "../../core/contracts/conversation.ts";
import type { JudgeConfig } from "../../core/contracts/judge.ts";
import { canonicalJson } from "../../core/contracts/parse.ts";
import type { Question } from "../../core/contracts/question.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Rewards } from "../../core/ports.ts";
import type { JudgeInput } from "./prompt.ts";
import { type Judge, judgeCorrectness, judgeQuality } from "./vote.ts";

/** Throws `config-invalid` without criteria. Every verdict is asked for once per trajectory, and kept under `judge`. */
export function judgedRewards(judge: Judge): Rewards {
  const { criteria } = judge.config;
  if (!criteria) {
    throw new MgrpoError(
      "config-invalid",
      "judge.criteria is missing: set it to judgeCriteria(), or to texts of your own",
    );
  }
  return {
    judge: judgeName(judge.config, criteria),
    correct: (question, { answer }) =>
      isExactMatch(answer, question.answer)
        ? 1
        : judgeCorrectness(judge, criteria.correct, correctnessInput(question, answer)),
    expert: (_question, _agent, conversation) => judgeQuality(judge, criteria.expert, workOf(conversation)),
  };
}

/** The name of the verdicts of a judge: another model, question or criteria give other verdicts; a price does not. */
export function judgeName({ model, votes, temperature, maxTokens }: JudgeConfig, criteria: unknown): string {
  const { keyVariable: _, timeoutSeconds: _seconds, attempts: _attempts, json: _json, ...asked } = model;
  const text = canonicalJson({ asked, votes, temperature, maxTokens, criteria });
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}

export function correctnessInput({ prompt, answer: reference }: Question, answer: string | null): JudgeInput {
  return { question: prompt, reference, answer: answer ?? "" };
}

/** To the letter: there is nothing to judge. */
export const isExactMatch = (answer: string | null, reference: string): boolean => answer?.trim() === reference.trim();

function workOf({ prompt, turns, answer }: Conversation): JudgeInput {
  const steps = turns.map(({ text, responses }) => ({
    said: text,
    responses: responses.map((response) => ({ tool: response.name, text: response.text })),
  }));
  return { task: prompt, steps, report: answer ?? "" };
}
