/** @file A model that judges: how it is asked and what it costs, and the verdicts that are kept of it. */
import * as z from "zod";
import { LanguageModelSpec } from "./language-model.ts";

export const JudgeConfig = z
  .strictObject({
    /** `openai#gpt-5-mini`, or an object: language-model.ts. */
    model: LanguageModelSpec,
    /** Times that each verdict is asked for: the majority decides, of scores the median. */
    votes: z
      .int()
      .positive()
      .refine((votes) => votes % 2 === 1, { error: "must be odd, so that there is a majority" })
      .default(1),
    /** Null: the server's default, which some models do not let one change. */
    temperature: z.number().min(0).nullable().default(null),
    /** Of one verdict, thoughts included. */
    maxTokens: z.int().positive().default(2048),
    /** What the verdicts cost is recorded in dollars if their price is known, and always in tokens. */
    usdPerMillionTokens: z
      .strictObject({ input: z.number().nonnegative(), output: z.number().nonnegative() })
      .nullable()
      .default(null),
    /**
     * What is right, and what is good work (eq 5), as Markdown: the texts themselves, which functions have no files to read from.
     * Needed where the recipe's rewards ask a judge; benchmarks bring criteria of their own.
     */
    criteria: z.strictObject({ correct: z.string().min(1), expert: z.string().min(1) }).exactOptional(),
  })
  .refine(({ votes, temperature }) => votes === 1 || temperature !== 0, {
    path: ["votes"],
    error: "greedy votes would all be the same: set votes to 1, or a temperature above 0",
  });
export type JudgeConfig = z.infer<typeof JudgeConfig>;

/** Tokens as the judge's server counted them; dollars by the config's prices, null where there are none. */
export const JudgeCost = z.strictObject({
  inputTokens: z.int().nonnegative(),
  outputTokens: z.int().nonnegative(),
  usd: z.number().nonnegative().nullable(),
});
export type JudgeCost = z.infer<typeof JudgeCost>;

const Score = z.number().min(0).max(1);

/** What was decided about one trajectory. A program's verdict is a score alone. */
export const Verdict = z.strictObject({
  score: Score,
  /** What a model said, vote by vote. */
  votes: z.array(z.strictObject({ score: Score, reason: z.string() })).exactOptional(),
  cost: JudgeCost.exactOptional(),
});
export type Verdict = z.infer<typeof Verdict>;

/** A score in [0, 1], or a verdict, which says besides what a judge gave as its reasons and what it cost. */
export type Judgement = number | Verdict;

/** What was paid for answers that came to no verdict, as the evidence of the error says. */
export function costOfFailure(error: unknown): JudgeCost | undefined {
  const evidence = error instanceof Error && "evidence" in error ? error.evidence : undefined;
  return z.object({ cost: JudgeCost }).safeParse(evidence).data?.cost;
}

/** The sum of costs; undefined of none. Dollars are unknown where those of one are. */
export function totalCost(costs: readonly JudgeCost[]): JudgeCost | undefined {
  if (costs.length === 0) return undefined;
  return costs.reduce((sum, one) => ({
    inputTokens: sum.inputTokens + one.inputTokens,
    outputTokens: sum.outputTokens + one.outputTokens,
    usd: sum.usd === null || one.usd === null ? null : sum.usd + one.usd,
  }));
}
