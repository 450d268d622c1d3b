/**
 * @file Whether two questions are copies, whatever their ids: they have the same prompt and facts, or one leaves its facts out. Space around a
 * prompt does not count, nor does how accents are encoded.
 */
import { canonicalJson } from "../../core/contracts/parse.ts";
import type { Question } from "../../core/contracts/question.ts";

type PromptAndFacts = Pick<Question, "prompt" | "facts">;

/** A prompt in the form in which copies are equal. */
export const wordingOf = (prompt: string): string => prompt.normalize("NFC").trim();

/** Prompt and facts (a world or an attachment) as one string. */
export const contentOf = ({ prompt, facts }: PromptAndFacts): string =>
  canonicalJson(JSON.parse(JSON.stringify({ prompt: wordingOf(prompt), facts }).normalize("NFC")));

/** The `contentOf` of every copy: with the question's own facts, or with none. */
export const copiesOf = ({ prompt, facts: own }: PromptAndFacts): string[] =>
  [own, {}, null].map((facts) => contentOf({ prompt, facts }));
