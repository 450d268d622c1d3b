/** @file Whether two questions are copies, whatever their ids: they have the same prompt and facts, or one leaves its facts out. */
import { canonicalJson } from "../../core/contracts/parse.ts";
import type { Question } from "../../core/contracts/question.ts";

type PromptAndFacts = Pick<Question, "prompt" | "facts">;

/** Prompt and facts (a world or an attachment) as one string. */
export const contentOf = ({ prompt, facts }: PromptAndFacts): string => canonicalJson({ prompt, facts });

/** The `contentOf` of every copy: with the question's own facts, or with none. */
export const copiesOf = ({ prompt, facts: own }: PromptAndFacts): string[] =>
  [own, {}, null].map((facts) => contentOf({ prompt, facts }));
