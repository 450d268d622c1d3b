/** @file The subsets of a benchmark that its authors report separately, and those of all other questions: by level and by kind. */
import type { Benchmark } from "../../core/contracts/evaluation-suite.ts";
import type { Question } from "../../core/contracts/question.ts";

/** The groups of a question. */
export function groupsOf(benchmark: Benchmark | undefined, { kind, level, facts }: Question): string[] {
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
