/** @file A language model behind a tool: its outages are outages of a backend, its answers are cached, its tokens are charged. */
import * as z from "zod";
import { isMgrpoError, MgrpoError } from "../../../../core/errors.ts";
import type { ChatMessage, LanguageModel, ToolContext } from "../../../../core/ports.ts";
import type { ExternalCalls } from "../external/calls.ts";

export interface ToolModel {
  readonly model: LanguageModel;
  /** Its name in the cache. Another model, or another setting, has another name. */
  readonly name: string;
  /** Dollars per million tokens; 0 if it is free. */
  readonly usdPerMillionTokens: { readonly input: number; readonly output: number };
  readonly maxTokens: number;
}

const FREE = { inputTokens: 0, outputTokens: 0 };

const REFUSALS: Readonly<Record<string, string>> = {
  "too-long": "(the model cannot read so much at once)",
  filtered: "(the model's filter refuses this text)",
};

const Answer = z.strictObject({ text: z.string(), inputTokens: z.int(), outputTokens: z.int() });

/** The model's text, or that it refuses this content. Greedy, so that the answer depends little on who asks first. */
export async function callToolModel(
  tool: string,
  { model, name, usdPerMillionTokens: usd, maxTokens }: ToolModel,
  messages: readonly ChatMessage[],
  calls: ExternalCalls,
  context: ToolContext,
): Promise<string> {
  const costOf = ({ inputTokens, outputTokens }: z.infer<typeof Answer>) =>
    (inputTokens * usd.input + outputTokens * usd.output) / 1e6;
  const request = {
    tool,
    backend: name,
    arguments: { maxTokens, messages: messages.map(({ role, content }) => ({ role, content })) },
  };
  const complete = async () => {
    const { text, usage } = await model.complete({ messages, temperature: 0, maxTokens }).catch((cause: unknown) => {
      if (!isMgrpoError(cause, "endpoint-unavailable", "endpoint-refused")) throw cause;
      const refusal = (cause.evidence as { contentRefusal?: string } | undefined)?.contentRefusal;
      // The content is at fault, now and at every retry: an answer, not an outage.
      if (refusal !== undefined) return { text: REFUSALS[refusal] ?? refusal, usage: FREE };
      throw new MgrpoError("tool-backend", `${tool}: ${cause.message}`, { retryable: cause.retryable, cause });
    });
    return { text, ...usage };
  };
  const answer = await calls.call(request, Answer, 0, complete, { costOf, canary: context.question.canary });
  context.budget.add(costOf(answer));
  return answer.text.trim();
}
