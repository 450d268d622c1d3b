/** @file The port that scores an evaluation: the recipe's rewards, or a benchmark's own rules. */
import type { Question } from "./contracts/question.ts";
import type { Rewards } from "./ports.ts";

export interface Scorer extends Pick<Rewards, "judge" | "correct"> {
  /** False if there is no reference answer, as in a leaderboard's test split: the question is asked, but not counted. */
  isScored?(question: Question): boolean;
}
