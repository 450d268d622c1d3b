/** @file What a question of atlas carries for scoring and for the tools: enough that functions need no world. */
import * as z from "zod";
import type { Question } from "../../../core/contracts/question.ts";

export const Facts = z.strictObject({
  /** Number of the world it is asked in. */
  world: z.int().nonnegative(),
  /** The chain of facts it asks for: what the train/held-out split is made by. */
  chain: z.string(),
  /** The chain as tasks for the searcher, each with its one right answer. */
  lookUps: z.array(z.strictObject({ task: z.string(), answer: z.string() })),
});
export type Facts = z.infer<typeof Facts>;

/** The world of the user's questions, and of anybody else's: the real one. Nothing is known of their chains. */
export const REAL_WORLD: Facts = { world: 0, chain: "", lookUps: [] };

/** What the recipe's own questions carry; of others, where they are asked. */
export const factsOf = ({ facts }: Pick<Question, "facts">): Facts => Facts.safeParse(facts).data ?? REAL_WORLD;
