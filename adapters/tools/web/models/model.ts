/** @file A language model behind a tool: its outages count as backend outages, its answers are cached, its tokens are charged to the budget. */
import * as z from "zod";
import { isMgrpoError, MgrpoError } from "../../../../core/errors.ts";
import { costUsd, maxCostUsd, payAfter } from "../../../../core/model-cost.ts";
import type {
  ChatMessage,
  Completion,
  CompletionRequest,
  LanguageModel,
  TokenUsage,
  ToolContext,
} from "../../../../core/ports.ts";
import type { ExternalCalls } from "../external/calls.ts";

export interface ToolModel {
  readonly model: LanguageModel;
  /** Identifies the model in the cache. */
  readonly name: string;
  /** Dollars per million tokens; 0 if it is free. */
  readonly usdPerMillionTokens: { readonly input: number; readonly output: number };
  readonly maxTokens: number;
}

const NONE = { inputTokens: 0, outputTokens: 0 };

const UNFINISHED = "(the model used all its tokens before it answered)";
const REFUSALS: Readonly<Record<string, string>> = {
  "too-long": "(this text is too long for the model)",
  filtered: "(the model's content filter refused this text)",
  unfinished: UNFINISHED,
};

interface Evidence {
  readonly contentRefusal?: string;
  readonly answerFault?: string;
  readonly usage?: TokenUsage;
}

const Answer = z.strictObject({ text: z.string(), inputTokens: z.int(), outputTokens: z.int() });

export interface ModelCall {
  readonly tool: string;
  readonly messages: readonly ChatMessage[];
}

/** What a call that uses all its tokens costs, in dollars: an estimate that is seldom too low. */
export function maxCostUsdOf({ usdPerMillionTokens, maxTokens }: ToolModel, messages: ModelCall["messages"]): number {
  const texts = messages.map(({ content }) => content);
  return maxCostUsd(usdPerMillionTokens, texts, maxTokens);
}

/**
 * The model's text after its thinking, or a message saying that the model refuses the content or gives no usable answer. The caller has
 * reserved the call's maximum cost (`reserve`). Decoding is greedy if the model allows it, so the cached answer depends little on which caller
 * asks first.
 */
export async function callToolModel(
  toolModel: ToolModel,
  { tool, messages }: ModelCall,
  calls: ExternalCalls,
  context: ToolContext,
): Promise<string> {
  const { model, name, usdPerMillionTokens: usd, maxTokens } = toolModel;
  const maxUsd = maxCostUsdOf(toolModel, messages);
  const request = {
    tool,
    backend: name,
    arguments: { maxTokens, messages: messages.map(({ role, content }) => ({ role, content })) },
  };
  let unknownUsages = 0;
  const onUnknownUsage = () => {
    unknownUsages += 1;
  };
  const complete = async () => {
    const { text, usage } = await completeGreedily(model, { messages, maxTokens, onUnknownUsage }).catch(
      (cause: unknown) => contentRefusalOf(tool, cause),
    );
    return { text, ...usage };
  };
  const costOf = (counts: TokenUsage) => costUsd(usd, counts);
  const options = { costOf, maxUsd, canary: context.question.canary };
  // Only the run pays for requests whose usage is unknown: how often a server is too slow depends on timing, and a rollout's
  // budget must not. The run pays for them last: if they exceed its limit, the answer is already counted and stored.
  const answer = await payAfter(
    () => calls.call(request, Answer, 0, complete, options),
    () => calls.payMore(unknownUsages * maxUsd),
  );
  context.budget.addCost(costOf(answer));
  const answered = withoutThinking(answer.text).trim();
  if (answered !== "") return answered;
  return answer.outputTokens < maxTokens ? "(the model gave no answer)" : UNFINISHED;
}

/** Some servers leave the model's thinking before its answer. The prompt may have opened it. An answer may quote the tags. */
function withoutThinking(text: string): string {
  const [thinking = "", ...rest] = text.split("</think>");
  if (rest.length > 0 && /^(?!.*<think>)|^\s*<think>/s.test(thinking)) return rest.join("</think>");
  return text.trimStart().startsWith("<think>") ? "" : text;
}

/** Models that accept only their default temperature, such as OpenAI's gpt-5 and Kimi's k2.5. */
const ownTemperature = new WeakSet<LanguageModel>();

async function completeGreedily(model: LanguageModel, request: CompletionRequest): Promise<Completion> {
  if (ownTemperature.has(model)) return model.complete(request);
  try {
    return await model.complete({ ...request, temperature: 0 });
  } catch (error) {
    if (!refusesTemperature(error)) throw error;
    const completion = await model.complete(request);
    ownTemperature.add(model);
    return completion;
  }
}

function refusesTemperature(error: unknown): boolean {
  if (!isMgrpoError(error, "endpoint-refused")) return false;
  const { status, contentRefusal } = (error.evidence ?? {}) as { status?: number; contentRefusal?: string };
  return (status === 400 || status === 422) && contentRefusal === undefined && /temperature/i.test(error.message);
}

/** The model refuses the content now and on every retry, or gives no usable answer: an answer, not an outage. Throws any other failure. */
function contentRefusalOf(tool: string, cause: unknown): { readonly text: string; readonly usage: TokenUsage } {
  if (!isMgrpoError(cause, "endpoint-unavailable", "endpoint-refused")) throw cause;
  const { contentRefusal, answerFault, usage = NONE } = (cause.evidence ?? {}) as Evidence;
  const reason = contentRefusal ?? answerFault;
  if (reason !== undefined) return { text: REFUSALS[reason] ?? reason, usage };
  throw new MgrpoError("tool-backend", `${tool}: ${cause.message}`, { retryable: cause.retryable, cause });
}
