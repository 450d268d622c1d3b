/**
 * @file Tasks of reasoning-gym (Stojanovski et al. 2025, arXiv 2505.24760; github.com/open-thought/reasoning-gym): JSON Lines of the entries that
 * its generators yield, as bench/reasoning-gym/generate.py writes them. Accepts only tasks that reasoning-gym-score.ts can score.
 */
import * as z from "zod";
import type { SuiteQuestions } from "../../core/contracts/question.ts";
import { GymTask } from "./reasoning-gym-score.ts";
import { jsonRows, parseRows, requireDistinct } from "./rows.ts";

const GymEntry = z.object({
  question: z.string().min(1),
  answer: z.string().min(1),
  metadata: z.object({ source_dataset: GymTask, source_index: z.int().nonnegative() }),
});

/** 1: one expression to evaluate. 2: a problem in words that takes several steps. */
const LEVELS: Readonly<Record<GymTask, number>> = {
  chain_sum: 1,
  decimal_chain_sum: 1,
  basic_arithmetic: 1,
  products: 1,
  leg_counting: 2,
  gsm_symbolic: 2,
  family_relationships: 2,
};

export function loadReasoningGym(file: string): SuiteQuestions {
  const rows = jsonRows(file);
  const entries = parseRows(rows, GymEntry, "reasoning-gym");
  const questions = entries.map(({ question, answer, metadata: { source_dataset: kind, source_index: index } }) => ({
    id: `${kind}:${index}`,
    kind,
    level: LEVELS[kind],
    prompt: question.trim(),
    answer,
    facts: { index },
  }));
  requireDistinct(
    file,
    rows,
    questions.map(({ id }) => id),
  );
  return { questions };
}
