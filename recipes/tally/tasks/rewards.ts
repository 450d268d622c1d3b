/** @file A report is correct if the searcher looked up what the task names and reports the number that it asks for. */
import type { Conversation } from "../../../core/contracts/conversation.ts";
import type { Question } from "../../../core/contracts/question.ts";
import type { Rewards } from "../../../core/ports.ts";
import { villageAsked } from "../questions.ts";
import { judge } from "../rewards.ts";

export const rewards: Rewards = {
  correct: (question, conversation) => (isCorrectReport(question, conversation) ? 1 : 0),
  // There are no sub-agents.
  expert: () => 0,
};

export function isCorrectReport(question: Question, conversation: Conversation): boolean {
  const judged = judge(villageAsked(question), conversation);
  return judged?.isLookedUp === true && judged.isCorrect;
}
