/** @file The share of correct reports on a person, and on a house. */
import type { CaseStudy } from "../../../core/recipe.ts";
import type { TaskKind } from "./questions.ts";
import { isCorrectReport } from "./rewards.ts";

const numbers = (kind: TaskKind): CaseStudy => ({
  name: `numbers of a ${kind}`,
  expected: `the ${kind} that the task names is looked up, and the report has the number that the task asks for`,
  checks: (question, { conversation }) => (question.kind === kind ? [isCorrectReport(question, conversation)] : []),
});

export const caseStudies: readonly CaseStudy[] = [numbers("person"), numbers("house")];
