/** @file What an atlas question carries for scoring and tools, so that functions need no world. */
import * as z from "zod";
import type { Question } from "../../../core/contracts/question.ts";

export const Facts = z.strictObject({
  /** The number of the world that the question is about. */
  world: z.int().nonnegative(),
  /** The chain of facts that the question asks for: relations and named entities. */
  chain: z.string(),
  /** The chain as tasks for the searcher, each with its only correct answer. */
  lookUps: z.array(z.strictObject({ task: z.string(), answer: z.string() })),
});
export type Facts = z.infer<typeof Facts>;

/** Facts of a question that is not of this recipe: it is about the real world, and its chain is unknown. */
export const REAL_WORLD: Facts = { world: 0, chain: "", lookUps: [] };

/** The facts of a question of this recipe; for any other question, the real world. */
export const factsOf = ({ facts }: Pick<Question, "facts">): Facts => Facts.safeParse(facts).data ?? REAL_WORLD;
