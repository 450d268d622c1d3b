/** @file A question, with everything that scoring it needs: functions have no world to look things up in. */
import * as z from "zod";

export const Question = z.strictObject({
  id: z.string().min(1).max(80),
  /** The recipe's name for the shape of the question (`hop1`, `compare`, …): curves are split by it. */
  kind: z.string().min(1),
  /** Difficulty, 1 = easiest: what the curriculum selects by. */
  level: z.int().positive(),
  /** What the main agent is asked. */
  prompt: z.string().min(1),
  /** The reference answer, as the recipe's `correct` compares it. */
  answer: z.string(),
  /** Whatever else the recipe's rewards and tools need, small but for an attachment's text (facts on the question's chain, a world's number, …). */
  facts: z.json(),
  /** Of a benchmark that is shipped encrypted, once it is opened, so only in memory: what is written of the question is encrypted with it (encrypted.ts). */
  canary: z.string().min(1).exactOptional(),
});
export type Question = z.infer<typeof Question>;

/** A benchmark's question as its authors word it: the prompt without what a loader added to it, which keeps the words under `facts.question`. */
export function wordingOf({ prompt, facts }: Pick<Question, "prompt" | "facts">): string {
  const own = facts !== null && typeof facts === "object" && !Array.isArray(facts) ? facts["question"] : undefined;
  return typeof own === "string" ? own : prompt;
}

/** Files of questions as JSON Lines (docs/benchmarks.md), on the machine that starts the run: they travel with the run from there. */
export const QuestionFiles = z.strictObject({
  train: z.string().min(1),
  /** Absent: none is held out. */
  heldOut: z.string().min(1).exactOptional(),
});
export type QuestionFiles = z.infer<typeof QuestionFiles>;

export const Unasked = z.strictObject({ question: z.string(), why: z.string() });
export type Unasked = z.infer<typeof Unasked>;

/** The questions of a benchmark, as an evaluation suite asks them. */
export const SuiteQuestions = z.strictObject({
  questions: z.array(Question).min(1),
  /**
   * Prompts and answers stand here enciphered by it, as their benchmark ships them (encrypted.ts), and so does whatever is said about
   * them: in plain text they are only ever in memory. Absent: they are plain.
   */
  canary: z.string().min(1).exactOptional(),
  /** Those of its data that are not asked, since this team could not answer them, and why. */
  unasked: z.array(Unasked).exactOptional(),
  /** What a judge goes by, where answers are judged by a model. */
  criteria: z.string().min(1).exactOptional(),
});
export type SuiteQuestions = z.infer<typeof SuiteQuestions>;

/** The questions of a run, committed once before it starts. */
export const QuestionSet = z.strictObject({
  train: z.array(Question).min(1),
  heldOut: z.array(Question),
  /** By the names of the evaluation suites that ask a benchmark. */
  suites: z.record(z.string(), SuiteQuestions).exactOptional(),
});
export type QuestionSet = z.infer<typeof QuestionSet>;
