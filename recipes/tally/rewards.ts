/**
 * @file The rewards of tally. `correct` compares totals. `expert` (eq 5) is a program: it compares a report with the ledger. A
 * searcher that did not look up the task's person scores 0.
 */
import type { Conversation } from "../../core/contracts/conversation.ts";
import type { Question } from "../../core/contracts/question.ts";
import type { Rewards } from "../../core/ports.ts";
import { villageAsked } from "./questions.ts";
import { entryOf, FIELDS, pageOf, parseTask } from "./world.ts";

/** Weights of the parts of the expert's score. */
const LOOKED_UP = 0.3;
const NUMBER = 0.4;
const PAGE = 0.3;

export const rewards: Rewards = {
  correct: (question, { answer }) => (answer?.trim() === question.answer ? 1 : 0),
  expert: (question, _agent, conversation) => judge(question, conversation),
};

function judge(question: Question, { prompt, turns, answer }: Conversation): number {
  const task = parseTask(prompt);
  const entry = task && entryOf(villageAsked(question), task.name);
  if (!task || !entry) return 0;
  const calls = turns.flatMap((turn) => turn.calls);
  if (!calls.some((call) => String(call.arguments["name"] ?? "").trim() === task.name)) return 0;
  const [, number = "", page = ""] = /^(\d+): (.*)$/.exec(answer?.trim() ?? "") ?? [];
  const isCorrect = number === String(entry[task.field]);
  return LOOKED_UP + (isCorrect ? NUMBER : 0) + PAGE * shareShown(page, pageOf(entry));
}

/** The share of a page's entries that a report repeats, each in its place. */
function shareShown(reported: string, page: string): number {
  const [shown, expected] = [reported.split(", "), page.split(", ")];
  return expected.filter((line, i) => line === shown[i]).length / FIELDS.length;
}
