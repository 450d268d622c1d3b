/** @file Questions. A question carries everything that scoring needs, because functions cannot look anything up. */
import * as z from "zod";
import { QuestionId } from "./names.ts";

/**
 * A question with everything that is needed to score it. The main agent reads only `prompt`; rewards and tools get the whole question, an
 * app all but `answer` and `canary`.
 */
export const Question = z.strictObject({
  id: QuestionId,
  /** The recipe's category of the question (`hop1`, `compare`, …); reports are broken down by it. */
  kind: z.string().min(1),
  /** Difficulty for the curriculum; 1 is the easiest. */
  level: z.int().positive(),
  /** The question as the main agent receives it. */
  prompt: z.string().min(1),
  /** The reference answer that the recipe's `correct` compares with. */
  answer: z.string(),
  /** Everything else that the recipe's rewards and tools need: intermediate facts, an attachment's text, … */
  facts: z.json(),
  /** Set on decrypted benchmark questions, so only in memory: everything stored about the question is encrypted with it (encryption.ts). */
  canary: z.string().min(1).exactOptional(),
});
export type Question = z.infer<typeof Question>;

/** A benchmark question in its authors' words. A loader that adds to the prompt keeps the original under `facts.question`. */
export function originalWording({ prompt, facts }: Pick<Question, "prompt" | "facts">): string {
  const own = facts !== null && typeof facts === "object" && !Array.isArray(facts) ? facts["question"] : undefined;
  return typeof own === "string" ? own : prompt;
}

/** The value of `questions.heldOut` that keeps the recipe's held-out questions beside training questions from a file. */
export const RECIPE_QUESTIONS = "recipe";

/** Files of questions as JSON Lines (docs/benchmarks.md) on the machine that starts the run. Their content becomes part of the run. */
export const QuestionFiles = z.strictObject({
  train: z.string().min(1).describe("Path of the training questions, as JSON Lines."),
  heldOut: z
    .string()
    .min(1)
    .exactOptional()
    .describe("Path of the held-out questions, as JSON Lines, or `recipe` for the recipe's. Absent: there are none."),
});
export type QuestionFiles = z.infer<typeof QuestionFiles>;

/** A benchmark question that is not asked, and why. */
export const SkippedQuestion = z.strictObject({ question: z.string(), why: z.string() });
export type SkippedQuestion = z.infer<typeof SkippedQuestion>;

/** The questions of a benchmark in an evaluation suite. */
export const SuiteQuestions = z.strictObject({
  questions: z.array(Question).min(1),
  /**
   * The key that encrypts prompts and answers here, as in the published benchmark (encryption.ts). Conversations about them are
   * stored encrypted too: plain text exists only in memory. Absent: nothing is encrypted.
   */
  canary: z.string().min(1).exactOptional(),
  /** Questions of the benchmark that are not asked. */
  unasked: z.array(SkippedQuestion).exactOptional(),
  /** The judge's prompt, if a model judges the answers. */
  criteria: z.string().min(1).exactOptional(),
});
export type SuiteQuestions = z.infer<typeof SuiteQuestions>;

/** All questions of a run, committed once before it starts. */
export const QuestionSet = z.strictObject({
  train: z.array(Question).min(1),
  heldOut: z.array(Question),
  /** By evaluation-suite name. */
  suites: z.record(z.string(), SuiteQuestions).exactOptional(),
});
export type QuestionSet = z.infer<typeof QuestionSet>;
