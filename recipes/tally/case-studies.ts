/**
 * @file The numbers that the searcher reports for the two kinds of task, measured on held-out questions. Nearly every rollout has tasks of
 * one kind.
 */
import type { CaseStudy } from "../../core/recipe.ts";
import { villageAsked } from "./questions.ts";
import { judge } from "./rewards.ts";

const numbers = (about: string, isAboutPerson: boolean): CaseStudy => ({
  name: `numbers of a ${about}`,
  expected: `the ${about} that the task names is looked up, and the report has the number that the task asks for`,
  checks(question, { invocations }) {
    return invocations
      .flatMap(({ conversation }) => judge(villageAsked(question), conversation) ?? [])
      .filter((judged) => judged.isAboutPerson === isAboutPerson)
      .map(({ isLookedUp, isCorrect }) => isLookedUp && isCorrect);
  },
});

export const caseStudies: readonly CaseStudy[] = [numbers("person", true), numbers("house", false)];
