/**
 * @file The rewards of tally. `correct` compares totals. `expert` (eq 5) is a program: it compares a report with the ledger. A searcher
 * that did not look up the person, or survey the house, that the task names scores 0.
 */
import type { Conversation } from "../../core/contracts/conversation.ts";
import type { Rewards } from "../../core/ports.ts";
import { villageAsked } from "./questions.ts";
import { entryOf, FIELDS, houseReport, NAMES, pageOf, parseTask } from "./world.ts";

/** Weights of the parts of the expert's score. */
const LOOKED_UP = 0.3;
/** Of a report on a person. */
const NUMBER = 0.4;
const PAGE = 0.3;
/** Of a report on a house. */
const TOTAL = 0.7;

export const rewards: Rewards = {
  correct: (question, { answer }) => (answer?.trim() === question.answer ? 1 : 0),
  expert(question, _agent, conversation) {
    const judged = judge(villageAsked(question), conversation);
    if (!judged?.isLookedUp) return 0;
    const { isAboutPerson, isCorrect, pageShown } = judged;
    if (!isAboutPerson) return LOOKED_UP + (isCorrect ? TOTAL : 0);
    return LOOKED_UP + (isCorrect ? NUMBER : 0) + PAGE * pageShown;
  },
};

interface JudgedReport {
  /** Otherwise about a house. */
  readonly isAboutPerson: boolean;
  /** Whether the searcher looked up, or surveyed, what the task names. */
  readonly isLookedUp: boolean;
  /** Whether it reports the number that the task asks for. */
  readonly isCorrect: boolean;
  /** The share of the person's page that it reports; 0 for a house. */
  readonly pageShown: number;
}

/** Undefined for a text that is not a task in that village. */
export function judge(village: number, { prompt, turns, answer }: Conversation): JudgedReport | undefined {
  const task = parseTask(prompt);
  const entry = task && entryOf(village, task.name);
  if (!task || !entry) return undefined;
  const isAboutPerson = NAMES.includes(task.name);
  const [tool, argument] = isAboutPerson ? ["lookup", "name"] : ["survey", "house"];
  const calls = turns.flatMap((turn) => turn.calls);
  const isLookedUp = calls.some(
    (call) => call.name === tool && String(call.arguments[argument] ?? "").trim() === task.name,
  );
  const report = answer?.trim() ?? "";
  const expected = entry[task.field];
  if (!isAboutPerson) return { isAboutPerson, isLookedUp, isCorrect: report === houseReport(expected), pageShown: 0 };
  const [, number = "", page = ""] = /^(\d+): (.*)$/.exec(report) ?? [];
  return {
    isAboutPerson,
    isLookedUp,
    isCorrect: number === String(expected),
    pageShown: shareShown(page, pageOf(entry)),
  };
}

/** The share of a page's entries that a report repeats, each in its place. */
function shareShown(reported: string, page: string): number {
  const [shown, expected] = [reported.split(", "), page.split(", ")];
  return expected.filter((line, i) => line === shown[i]).length / FIELDS.length;
}
