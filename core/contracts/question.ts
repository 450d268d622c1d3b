/** @file A question, with everything that scoring needs: functions have no world to look things up in. */
import * as z from "zod";

export const Question = z.strictObject({
  id: z.string().min(1).max(80),
  /** The recipe's name for the shape of the question (`hop1`, `compare`, …): curves are split by it. */
  kind: z.string().min(1),
  /** Difficulty, 1 is easiest; the curriculum selects by it. */
  level: z.int().positive(),
  /** The question as the main agent receives it. */
  prompt: z.string().min(1),
  /** The reference answer, as the recipe's `correct` compares it. */
  answer: z.string(),
  /** What else the recipe's rewards and tools need (facts on the question's chain, a world's number, an attachment's text). Small, except for attachments. */
  facts: z.json(),
  /** The key of an encrypted benchmark. Set only in memory, on a decrypted question: whatever is stored about it is encrypted with this (encryption.ts). */
  canary: z.string().min(1).exactOptional(),
});
export type Question = z.infer<typeof Question>;

/** A benchmark's question in its authors' words, without what a loader added to the prompt: loaders keep them under `facts.question`. */
export function wordingOf({ prompt, facts }: Pick<Question, "prompt" | "facts">): string {
  const own = facts !== null && typeof facts === "object" && !Array.isArray(facts) ? facts["question"] : undefined;
  return typeof own === "string" ? own : prompt;
}

/** Files of questions as JSON Lines (docs/benchmarks.md), read once on the machine that starts the run. */
export const QuestionFiles = z.strictObject({
  train: z.string().min(1),
  /** Absent: no question is held out. */
  heldOut: z.string().min(1).exactOptional(),
});
export type QuestionFiles = z.infer<typeof QuestionFiles>;

export const Unasked = z.strictObject({ question: z.string(), why: z.string() });
export type Unasked = z.infer<typeof Unasked>;

/** The questions of a benchmark in an evaluation suite. */
export const SuiteQuestions = z.strictObject({
  questions: z.array(Question).min(1),
  /**
   * The key of an encrypted benchmark: prompts and answers are stored encrypted with it (encryption.ts), as is everything written about
   * them. They are in plain text only in memory. Absent: not encrypted.
   */
  canary: z.string().min(1).exactOptional(),
  /** Questions of its data that are not asked since this team could not answer them, and why. */
  unasked: z.array(Unasked).exactOptional(),
  /** The judge's criteria, where a model judges the answers. */
  criteria: z.string().min(1).exactOptional(),
});
export type SuiteQuestions = z.infer<typeof SuiteQuestions>;

/** All questions of a run, committed once before it starts. */
export const QuestionSet = z.strictObject({
  train: z.array(Question).min(1),
  heldOut: z.array(Question),
  /** By the name of the evaluation suite that asks a benchmark. */
  suites: z.record(z.string(), SuiteQuestions).exactOptional(),
});
export type QuestionSet = z.infer<typeof QuestionSet>;
