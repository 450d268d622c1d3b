/** @file An LLM judge: its settings, its costs, and its verdicts. */
import * as z from "zod";
import { LanguageModelSpec, TokenPrices } from "./language-model.ts";

/**
 * The judge's model, and how it judges: `votes` is the number of votes per verdict, whose scores in [0, 1] are combined by majority or median. If
 * failed votes leave a tie, one more vote decides. Prices are in US dollars per million tokens. The schema refuses an even number of votes, and
 * several votes at temperature 0.
 */
export const JudgeConfig = z
  .strictObject({
    model: LanguageModelSpec.describe("The judge's model, such as 'openai#gpt-5-mini', or an object."),
    votes: z
      .int()
      .positive()
      .refine((votes) => votes % 2 === 1, { error: "must be odd, so that there is a majority" })
      .default(1)
      .describe("Votes per verdict, an odd number: the majority decides, or the median of scores."),
    temperature: z
      .number()
      .min(0)
      .nullable()
      .default(null)
      .describe(
        "Sampling temperature of the judge. Null: the server's default, which some models do not let you change.",
      ),
    maxTokens: z.int().positive().default(2048).describe("Tokens that one vote may use, reasoning included."),
    usdPerMillionTokens: TokenPrices.nullable()
      .default(null)
      .describe(
        "Prices of the judge's tokens, which count toward budget.usd. Null: costs are recorded in tokens only.",
      ),
    criteria: z
      .strictObject({
        correct: z.string().min(1).describe("When an answer is correct, as Markdown text."),
        expert: z.string().min(1).describe("When a sub-agent's work is good (eq 5), as Markdown text."),
      })
      .exactOptional()
      .describe("The judge's criteria. Required if the recipe's rewards use a judge; benchmarks have their own."),
  })
  .refine(({ votes, temperature }) => votes === 1 || temperature !== 0, {
    path: ["votes"],
    error: "greedy votes would all be the same: set votes to 1, or a temperature above 0",
  });
export type JudgeConfig = z.infer<typeof JudgeConfig>;

/**
 * Tokens as the judge's server counted them. Dollars at the config's prices; null without prices. An attempt that the server may charge for, but
 * whose token counts are unknown, adds the maximum cost of one vote to the dollars, and nothing to the tokens.
 */
export const JudgeCost = z.strictObject({
  inputTokens: z.int().nonnegative(),
  outputTokens: z.int().nonnegative(),
  usd: z.number().nonnegative().nullable(),
});
export type JudgeCost = z.infer<typeof JudgeCost>;

/** DynamoDB stores no number closer to 0 than 1e-130. */
const MIN_SCORE = 1e-100;

/** A score in [0, 1]. One that is too small to be recorded is 0. */
export const UnitScore = z
  .number()
  .min(0)
  .max(1)
  .overwrite((score) => (score < MIN_SCORE ? 0 : score));

/** The judgment of one trajectory. One by a program has neither votes nor a cost. */
export const Verdict = z.strictObject({
  score: UnitScore,
  /** A model's votes. */
  votes: z.array(z.strictObject({ score: UnitScore, reason: z.string() })).exactOptional(),
  cost: JudgeCost.exactOptional(),
  /** Rewards of the conversation's turns, if the recipe gives any: one entry per turn; null: the turn has none. */
  turns: z.array(UnitScore.nullable()).exactOptional(),
});
export type Verdict = z.infer<typeof Verdict>;

/** A score in [0, 1], or a verdict with a judge's reasons and costs, or with the rewards of turns. */
export type Judgment = number | Verdict;

/**
 * Why there is no verdict. `refused-text`: the judge's server refuses the text, and always will. `unusable-answer`: its answer is not
 * a verdict. `outage`: no answer.
 */
const JudgeFault = z.enum(["refused-text", "unusable-answer", "outage"]);
export type JudgeFault = z.infer<typeof JudgeFault>;

/** What a failed verdict has cost, from the error's evidence. Undefined: the evidence has no cost. */
export function costOfFailure(error: unknown): JudgeCost | undefined {
  return z.object({ cost: JudgeCost }).safeParse(evidenceOf(error)).data?.cost;
}

/** The fault, from the evidence of the error or of its cause. */
export function faultOfFailure(error: unknown): JudgeFault {
  const fault = (from: unknown) => z.object({ fault: JudgeFault }).safeParse(evidenceOf(from)).data?.fault;
  return fault(error) ?? (error instanceof Error ? fault(error.cause) : undefined) ?? "outage";
}

const evidenceOf = (error: unknown): unknown =>
  error instanceof Error && "evidence" in error ? error.evidence : undefined;

/** The sum of costs; undefined if there are none. Dollars are null if any cost's dollars are. */
export function totalCost(costs: readonly JudgeCost[]): JudgeCost | undefined {
  if (costs.length === 0) return undefined;
  return costs.reduce((sum, one) => ({
    inputTokens: sum.inputTokens + one.inputTokens,
    outputTokens: sum.outputTokens + one.outputTokens,
    usd: sum.usd === null || one.usd === null ? null : sum.usd + one.usd,
  }));
}
