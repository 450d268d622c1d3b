/** @file What a question about atlas's worlds carries for the tools, the case studies and the note about its world. Rewards do not read it. */
import * as z from "zod";
import type { Question } from "../../../core/contracts/question.ts";

export const Facts = z.strictObject({
  /** The number of the world that the question is about. */
  world: z.int().nonnegative(),
  /** The chain of facts that the question asks for: relations and named entities. Only tests read it. */
  chain: z.string(),
  /** The chain as tasks for the searcher, each with its only correct answer. */
  lookUps: z.array(z.strictObject({ task: z.string(), answer: z.string() })),
});
export type Facts = z.infer<typeof Facts>;

/** For a question without these facts: it is about the real world, and its chain is unknown. */
export const REAL_WORLD: Facts = { world: 0, chain: "", lookUps: [] };

/** A question's facts; REAL_WORLD if it has none of this form. */
export const factsOf = ({ facts }: Pick<Question, "facts">): Facts => Facts.safeParse(facts).data ?? REAL_WORLD;
