/** @file One verdict of a model: asked for so many times, decided by the majority or the median, metered. */
import * as z from "zod";
import { type JudgeConfig, totalCost, type Verdict } from "../../core/contracts/judge.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { LanguageModel, TokenUsage } from "../../core/language-model.ts";
import { judgePrompt, type Material } from "./prompt.ts";

/** A model, and how it is asked. */
export interface Judge {
  readonly model: LanguageModel;
  readonly config: JudgeConfig;
}

/** Thinks before it decides: models write the fields of a schema in their order. */
const Correctness = z.strictObject({
  reason: z.string(),
  /** What the answer finally states; empty if nothing. */
  stated: z.string(),
  correct: z.boolean(),
});
const Quality = z.strictObject({ reason: z.string(), score: z.number().min(0).max(1) });

/** 1 or 0, as most votes say. */
export async function askCorrect(judge: Judge, criteria: string, material: Material): Promise<Verdict> {
  return vote(judge, criteria, material, Correctness, ({ reason, correct }) => ({ reason, score: correct ? 1 : 0 }));
}

/** The median of the scores, in [0, 1]. */
export async function askQuality(judge: Judge, criteria: string, material: Material): Promise<Verdict> {
  return vote(judge, criteria, material, Quality, ({ reason, score }) => ({ reason, score }));
}

type Vote = NonNullable<Verdict["votes"]>[number];

async function vote<S extends z.ZodType>(
  { model, config }: Judge,
  criteria: string,
  material: Material,
  schema: S,
  read: (said: z.infer<S>) => Vote,
): Promise<Verdict> {
  const { votes, temperature, maxTokens } = config;
  const request = {
    messages: judgePrompt(criteria, material),
    schema,
    maxTokens,
    ...(temperature !== null && { temperature }),
  };
  const cast = await Promise.all(
    Array.from({ length: votes }, async () => {
      const { text, usage } = await model.complete(request).catch(translate);
      const said = parseJson(schema, text, "the judge's answer", "judge-failed");
      return { vote: read(said), cost: priced(config, usage) };
    }),
  );
  const sorted = cast.map(({ vote: { score } }) => score).sort((a, b) => a - b);
  return {
    // Of an odd number: the majority of noughts and ones, too.
    score: sorted[(votes - 1) / 2] as number,
    votes: cast.map((one) => one.vote),
    cost: totalCost(cast.map(({ cost }) => cost)) as NonNullable<Verdict["cost"]>,
  };
}

function priced({ usdPerMillionTokens: prices }: JudgeConfig, { inputTokens, outputTokens }: TokenUsage) {
  const usd = prices && (inputTokens * prices.input + outputTokens * prices.output) / 1e6;
  return { inputTokens, outputTokens, usd };
}

/**
 * An answer that is no verdict may be one the next time, and a text that is too long or filtered is refused alone; any other refusal stays.
 */
function translate(error: unknown): never {
  const { status, objection } = (error as { evidence?: { status?: number; objection?: string } }).evidence ?? {};
  if (!isMgrpoError(error, "endpoint-refused") || (status !== undefined && objection === undefined)) throw error;
  throw new MgrpoError("judge-failed", error.message, { retryable: true, cause: error });
}
