/** @file A language model behind a tool: its outages count as backend outages, its answers are cached, its tokens are charged to the budget. */
import * as z from "zod";
import { isMgrpoError, MgrpoError } from "../../../../core/errors.ts";
import type { ChatMessage, LanguageModel, ToolContext } from "../../../../core/ports.ts";
import type { ExternalCalls } from "../external/calls.ts";

export interface ToolModel {
  readonly model: LanguageModel;
  /** Identifies the model and its settings in the cache. */
  readonly name: string;
  /** Dollars per million tokens; 0 if it is free. */
  readonly usdPerMillionTokens: { readonly input: number; readonly output: number };
  readonly maxTokens: number;
}

const FREE = { inputTokens: 0, outputTokens: 0 };

const REFUSALS: Readonly<Record<string, string>> = {
  "too-long": "(this text is too long for the model)",
  filtered: "(the model's content filter refused this text)",
};

type TokenCounts = Pick<z.infer<typeof Answer>, "inputTokens" | "outputTokens">;

const Answer = z.strictObject({ text: z.string(), inputTokens: z.int(), outputTokens: z.int() });

export interface ModelCall {
  readonly tool: string;
  readonly messages: readonly ChatMessage[];
  /** The rollout's remaining budget when the call began. */
  readonly leftUsd: number;
}

/**
 * The model's text, or a message that the model refuses the content or that the budget is too small. Decoding is greedy, so the cached
 * answer depends little on which caller asks first.
 */
export async function callToolModel(
  { model, name, usdPerMillionTokens: usd, maxTokens }: ToolModel,
  { tool, messages, leftUsd }: ModelCall,
  calls: ExternalCalls,
  context: ToolContext,
): Promise<string> {
  const costOf = ({ inputTokens, outputTokens }: TokenCounts) =>
    (inputTokens * usd.input + outputTokens * usd.output) / 1e6;
  const expectedUsd = costOf({ inputTokens: estimatedTokens(messages), outputTokens: maxTokens });
  if (expectedUsd > leftUsd)
    return `the remaining budget does not cover this call: it may cost $${formatUsd(expectedUsd)}, and $${formatUsd(leftUsd)} is left`;
  const request = {
    tool,
    backend: name,
    arguments: { maxTokens, messages: messages.map(({ role, content }) => ({ role, content })) },
  };
  const complete = async () => {
    const { text, usage } = await model.complete({ messages, temperature: 0, maxTokens }).catch((cause: unknown) => {
      if (!isMgrpoError(cause, "endpoint-unavailable", "endpoint-refused")) throw cause;
      const refusal = (cause.evidence as { contentRefusal?: string } | undefined)?.contentRefusal;
      // The content is refused now and on every retry: an answer, not an outage.
      if (refusal !== undefined) return { text: REFUSALS[refusal] ?? refusal, usage: FREE };
      throw new MgrpoError("tool-backend", `${tool}: ${cause.message}`, { retryable: cause.retryable, cause });
    });
    return { text, ...usage };
  };
  const answer = await calls.call(request, Answer, 0, complete, {
    costOf,
    expectedUsd,
    canary: context.question.canary,
  });
  context.budget.addCost(costOf(answer));
  return answer.text.trim();
}

/** A token is about 4 bytes of UTF-8 in English, 3 in Chinese, fewer in numbers and rare scripts. */
const BYTES_PER_TOKEN = 3;

function estimatedTokens(messages: readonly ChatMessage[]): number {
  const bytes = messages.reduce((sum, { content }) => sum + Buffer.byteLength(content), 0);
  return Math.ceil(bytes / BYTES_PER_TOKEN);
}

const formatUsd = (usd: number) => String(Number(usd.toPrecision(2)));
