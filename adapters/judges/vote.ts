/** @file One verdict by a model: its votes, their majority or median, and their cost. */
import * as z from "zod";
import {
  costOfFailure,
  faultOfFailure,
  type JudgeConfig,
  type JudgeCost,
  type JudgeFault,
  totalCost,
  type Verdict,
} from "../../core/contracts/judge.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { CompletionRequest, LanguageModel, TokenUsage } from "../../core/language-model-ports.ts";
import { costUsd, maxCostUsd } from "../../core/model-cost.ts";
import type { VerdictContext } from "../../core/ports.ts";
import { median } from "../../core/statistics.ts";
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

/** What is judged, and the same without its quotations, for a server that refuses them. */
export interface Judged {
  readonly input: JudgeInput;
  readonly withoutQuotations?: JudgeInput;
}

/** 1 or 0, by majority. */
export async function judgeCorrectness(
  judge: Judge,
  criteria: string,
  input: JudgeInput,
  context: VerdictContext = UNBOUNDED,
): Promise<Verdict> {
  const read = ({ reason, correct }: z.infer<typeof Correctness>) => ({ reason, score: correct ? 1 : 0 });
  return vote({ judge, criteria, schema: Correctness, read, decide: majority, context }, input);
}

/** The median of the scores, in [0, 1]. */
export async function judgeQuality(
  judge: Judge,
  criteria: string,
  { input, withoutQuotations }: Judged,
  context: VerdictContext = UNBOUNDED,
): Promise<Verdict> {
  const read = ({ reason, score }: z.infer<typeof Quality>) => ({ reason, score });
  const ballot: Ballot<typeof Quality> = { judge, criteria, schema: Quality, read, decide: median, context };
  try {
    return await vote(ballot, input);
  } catch (error) {
    if (!withoutQuotations || faultOfFailure(error) !== "refused-text") throw error;
    return await vote(ballot, withoutQuotations, costOfFailure(error));
  }
}

/** No deadline, and no budget to charge. */
const UNBOUNDED: VerdictContext = { signal: new AbortController().signal, reserve: async () => {} };

type Vote = NonNullable<Verdict["votes"]>[number];

interface Ballot<S extends z.ZodType> {
  readonly judge: Judge;
  readonly criteria: string;
  readonly schema: S;
  readonly read: (answer: z.infer<S>) => Vote;
  /** Undefined: undecided. */
  readonly decide: (scores: readonly number[]) => number | undefined;
  readonly context: VerdictContext;
}

/** Undefined in a tie, which only a failed vote can cause. */
function majority(scores: readonly number[]): number | undefined {
  const ones = scores.filter((score) => score === 1).length;
  return 2 * ones === scores.length ? undefined : Number(2 * ones > scores.length);
}

/** More than half of the votes must be valid. A tie is decided by one more vote. `spent`: what this verdict has cost so far. */
async function vote<S extends z.ZodType>(ballot: Ballot<S>, input: JudgeInput, spent?: JudgeCost): Promise<Verdict> {
  const { votes, temperature, maxTokens } = ballot.judge.config;
  const request: CompletionRequest = {
    messages: judgePrompt(ballot.criteria, input),
    schema: ballot.schema,
    maxTokens,
    ...(temperature !== null && { temperature }),
  };
  const results = await castVotes(ballot, request, votes, spent);
  let verdict = decided(ballot, results);
  if (verdict === "tie") {
    results.push(...(await castVotes(ballot, request, 1, costSoFar(results, spent))));
    verdict = decided(ballot, results);
  }
  const cost = costSoFar(results, spent);
  if (typeof verdict === "object") return { ...verdict, ...(cost && { cost }) };
  const error = decisiveError(results.flatMap((one) => ("error" in one ? [one.error] : [])));
  throw cost ? withCost(error, cost) : error;
}

const costSoFar = (results: readonly VoteResult[], spent: JudgeCost | undefined): JudgeCost | undefined =>
  totalCost([...(spent ? [spent] : []), ...results.flatMap((one) => one.cost ?? [])]);

/** A refusal that only the user can fix comes first, then an outage: neither says anything about what is judged. */
function decisiveError(errors: readonly unknown[]): unknown {
  const isRefusal = (error: unknown) => isMgrpoError(error, "endpoint-refused");
  const isOutage = (error: unknown) => faultOfFailure(error) === "outage";
  return errors.find(isRefusal) ?? errors.find(isOutage) ?? errors[0];
}

/** Undefined: too many votes failed. */
function decided<S extends z.ZodType>(
  { judge, decide }: Ballot<S>,
  results: readonly VoteResult[],
): Verdict | "tie" | undefined {
  const votes = results.flatMap((one) => ("vote" in one ? one.vote : []));
  if (2 * votes.length <= judge.config.votes) return undefined;
  const score = decide(votes.map((one) => one.score));
  return score === undefined ? "tie" : { score, votes };
}

/** `spent`: what the verdict has cost so far. If the reservation fails, no request is made, and the error carries that cost. */
async function castVotes<S extends z.ZodType>(
  ballot: Ballot<S>,
  request: CompletionRequest,
  votes: number,
  spent: JudgeCost | undefined,
): Promise<VoteResult[]> {
  const { judge, context } = ballot;
  await context.reserve(votes * maxUsdPerVote(judge.config, request)).catch((error: unknown) => {
    throw spent ? withCost(error, spent) : error;
  });
  return Promise.all(Array.from({ length: votes }, () => castVote(ballot, request)));
}

async function castVote<S extends z.ZodType>(
  { judge: { model, config }, schema, read, context }: Ballot<S>,
  request: CompletionRequest,
): Promise<VoteResult> {
  let usage: TokenUsage | undefined;
  let unknownUsages = 0;
  const onUnknownUsage = () => {
    unknownUsages += 1;
  };
  const cost = () => costOf(config, request, usage, unknownUsages);
  try {
    const answer = await model.complete({ ...request, onUnknownUsage }, context.signal);
    usage = answer.usage;
    return { vote: read(parseAnswer(schema, answer.text)), cost: cost() };
  } catch (error) {
    usage ??= evidenceOf(error).usage;
    return { error: translated(error), ...((usage || unknownUsages > 0) && { cost: cost() }) };
  }
}

/** @param unknownUsages number of attempts whose usage is unknown. */
function costOf(config: JudgeConfig, request: CompletionRequest, usage: TokenUsage | undefined, unknownUsages: number) {
  const { inputTokens, outputTokens } = usage ?? { inputTokens: 0, outputTokens: 0 };
  const { usdPerMillionTokens: prices } = config;
  const usd = prices && costUsd(prices, { inputTokens, outputTokens }) + unknownUsages * maxUsdPerVote(config, request);
  return { inputTokens, outputTokens, usd };
}

function parseAnswer<S extends z.ZodType>(schema: S, text: string): z.infer<S> {
  try {
    return parseJson(schema, text, "the judge's answer", "judge-failed");
  } catch (cause) {
    throw judgeFailed((cause as MgrpoError).message, "unusable-answer", cause);
  }
}

/** A vote, or why it failed; with its cost, if the model answered or may have. */
type VoteResult =
  | { readonly vote: Vote; readonly cost: JudgeCost }
  | { readonly error: unknown; readonly cost?: JudgeCost };

/** The server charges for an answer even if it is not a verdict, so the caller must count its cost. */
function withCost(error: unknown, cost: JudgeCost): unknown {
  if (!isMgrpoError(error)) return error;
  const { code, message, retryable, cause } = error;
  return new MgrpoError(code, message, { retryable, cause, evidence: { ...evidenceOf(error), cost } });
}

/** The cost of one vote that uses all its tokens. */
function maxUsdPerVote(
  { usdPerMillionTokens: prices, maxTokens }: JudgeConfig,
  { messages }: CompletionRequest,
): number {
  const texts = messages.map(({ content }) => content);
  return prices ? maxCostUsd(prices, texts, maxTokens) : 0;
}

/**
 * An answer that is not a verdict or that the server withholds, a text that is too long or filtered, and a refusal without an HTTP status fail
 * only this verdict. Other refusals are returned unchanged: they concern every request.
 */
function translated(error: unknown): unknown {
  const { status, contentRefusal, answerFault, usage } = evidenceOf(error);
  if (!isMgrpoError(error, "endpoint-refused")) return error;
  if (contentRefusal !== undefined) return judgeFailed(error.message, "refused-text", error);
  if (answerFault !== undefined) return judgeFailed(error.message, "unusable-answer", error);
  if (status !== undefined) return error;
  return judgeFailed(error.message, usage ? "unusable-answer" : "outage", error);
}

const judgeFailed = (message: string, fault: JudgeFault, cause: unknown): MgrpoError =>
  new MgrpoError("judge-failed", message, { retryable: true, cause, evidence: { fault } });

interface Evidence {
  readonly status?: number;
  readonly contentRefusal?: string;
  readonly answerFault?: string;
  readonly usage?: TokenUsage;
}

const evidenceOf = (error: unknown): Evidence => (error as { evidence?: Evidence }).evidence ?? {};
