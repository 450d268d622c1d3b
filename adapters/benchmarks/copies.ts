/** @file Whether a question is a copy of another, under whatever id. */
import { canonicalJson } from "../../core/contracts/parse.ts";
import type { Question } from "../../core/contracts/question.ts";

type PromptAndFacts = Pick<Question, "prompt" | "facts">;

/** Prompt and facts (a world or an attachment) as one string. */
export const contentOf = ({ prompt, facts }: PromptAndFacts): string => canonicalJson({ prompt, facts });

/** The contents of the question's copies. A copy may leave the facts out. */
export const copiesOf = ({ prompt, facts: own }: PromptAndFacts): string[] =>
  [own, {}, null].map((facts) => contentOf({ prompt, facts }));
