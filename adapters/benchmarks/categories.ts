/** @file Scores are also reported by category: in the categories of a benchmark's authors, or else by level and by kind. */
import type { Benchmark } from "../../core/contracts/evaluation-suite.ts";
import type { Question } from "../../core/contracts/question.ts";

/** The categories that a question belongs to. */
export function categoriesOf(benchmark: Benchmark | undefined, { kind, level, facts }: Question): string[] {
  switch (benchmark) {
    case "gaia":
    case "reasoning-gym":
      return [kind];
    case "xbench":
      return [];
    case "webwalkerqa": {
      const { difficulty, language } = facts as { difficulty: string; language: string };
      return [difficulty, language, `${kind} ${difficulty}`];
    }
    default:
      return [...new Set([`level ${level}`, kind])];
  }
}
