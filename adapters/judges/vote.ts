/** @file One verdict of a model: several votes, decided by the majority or the median, with their cost. */
import * as z from "zod";
import { type JudgeConfig, type JudgeCost, totalCost, type Verdict } from "../../core/contracts/judge.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { LanguageModel, TokenUsage } from "../../core/language-model-ports.ts";
import { type JudgeInput, judgePrompt } from "./prompt.ts";

/** A model and its settings as a judge. */
export interface Judge {
  readonly model: LanguageModel;
  readonly config: JudgeConfig;
}

/** Models write the fields of a schema in order, so the reason comes before the decision. */
const Correctness = z.strictObject({
  reason: z.string(),
  /** The final statement of the answer; empty if there is none. */
  stated: z.string(),
  correct: z.boolean(),
});
const Quality = z.strictObject({ reason: z.string(), score: z.number().min(0).max(1) });

/** 1 or 0, by majority. */
export async function judgeCorrectness(judge: Judge, criteria: string, input: JudgeInput): Promise<Verdict> {
  return vote(judge, criteria, input, Correctness, ({ reason, correct }) => ({ reason, score: correct ? 1 : 0 }));
}

/** The median of the scores, in [0, 1]. */
export async function judgeQuality(judge: Judge, criteria: string, input: JudgeInput): Promise<Verdict> {
  return vote(judge, criteria, input, Quality, ({ reason, score }) => ({ reason, score }));
}

type Vote = NonNullable<Verdict["votes"]>[number];

async function vote<S extends z.ZodType>(
  { model, config }: Judge,
  criteria: string,
  input: JudgeInput,
  schema: S,
  read: (answer: z.infer<S>) => Vote,
): Promise<Verdict> {
  const { votes, temperature, maxTokens } = config;
  const request = {
    messages: judgePrompt(criteria, input),
    schema,
    maxTokens,
    ...(temperature !== null && { temperature }),
  };
  async function cast(): Promise<Cast> {
    let usage: TokenUsage | undefined;
    try {
      const answer = await model.complete(request);
      usage = answer.usage;
      return {
        vote: read(parseJson(schema, answer.text, "the judge's answer", "judge-failed")),
        cost: priced(config, usage),
      };
    } catch (error) {
      usage ??= evidenceOf(error).usage;
      return { error: translated(error), ...(usage && { cost: priced(config, usage) }) };
    }
  }

  const all = await Promise.all(Array.from({ length: votes }, cast));
  const cost = totalCost(all.flatMap((one) => one.cost ?? []));
  const failed = all.find((one) => "error" in one);
  if (failed) throw cost ? withCost(failed.error, cost) : failed.error;
  const counted = all.flatMap((one) => ("vote" in one ? one.vote : []));
  const sorted = counted.map(({ score }) => score).sort((a, b) => a - b);
  // The number of votes is odd. For zeros and ones, the median is the majority.
  return { score: sorted[(votes - 1) / 2] as number, votes: counted, cost: cost as NonNullable<Verdict["cost"]> };
}

/** A vote, or why it failed; with its cost, if the model answered. */
type Cast = { readonly vote: Vote; readonly cost: JudgeCost } | { readonly error: unknown; readonly cost?: JudgeCost };

/** An answer is charged for even if there is no verdict: the caller must bill it. */
function withCost(error: unknown, cost: JudgeCost): unknown {
  if (!isMgrpoError(error)) return error;
  const { code, message, retryable, cause } = error;
  return new MgrpoError(code, message, { retryable, cause, evidence: { ...evidenceOf(error), cost } });
}

function priced({ usdPerMillionTokens: prices }: JudgeConfig, { inputTokens, outputTokens }: TokenUsage): JudgeCost {
  const usd = prices && (inputTokens * prices.input + outputTokens * prices.output) / 1e6;
  return { inputTokens, outputTokens, usd };
}

/**
 * Retryable: an answer that is no verdict, and a text that is too long or filtered, which fails only this verdict. Other refusals are not.
 */
function translated(error: unknown): unknown {
  const { status, contentRefusal } = evidenceOf(error);
  if (!isMgrpoError(error, "endpoint-refused") || (status !== undefined && contentRefusal === undefined)) return error;
  return new MgrpoError("judge-failed", error.message, { retryable: true, cause: error });
}

function evidenceOf(error: unknown): { status?: number; contentRefusal?: string; usage?: TokenUsage } {
  return (error as { evidence?: { status?: number; contentRefusal?: string; usage?: TokenUsage } }).evidence ?? {};
}
