/**
 * @file The rewards, in [0, 1]: `correct` for the answer of the whole team, `expert` for a searcher's own work, whatever the planner did
 * with it. Pure: they see the question and the conversation, nothing else.
 */
import type { Conversation, Question, Rewards } from "mgrpo/recipe";
import { villageAsked } from "./questions.ts";
import { parseTask, villageOf } from "./world.ts";

/** Shares of the expert's score. */
const LOOKED_UP = 0.4;
const REPORTED = 0.6;

export const rewards: Rewards = {
  correct: (question, { answer }) => (answer === question.answer ? 1 : 0),
  expert: (question, _agent, conversation) => judge(question, conversation),
};

/** Scores whether the person in the task was looked up, and whether the report is correct. */
function judge(question: Question, { prompt, turns, answer }: Conversation): number {
  const task = parseTask(prompt);
  if (!task) return 0;
  const hasLookedUp = turns.some(({ calls }) => calls.some((call) => call.arguments["name"] === task.name));
  const isCorrect = answer === villageOf(villageAsked(question)).get(task.name)?.[task.field];
  return (hasLookedUp ? LOOKED_UP : 0) + (isCorrect ? REPORTED : 0);
}
