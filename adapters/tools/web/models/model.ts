/** @file A language model as tools ask it: its outages are the tools' backend's, its answers are cached, its tokens are paid for. */
import * as z from "zod";
import { isMgrpoError, MgrpoError } from "../../../../core/errors.ts";
import type { ChatMessage, LanguageModel, ToolContext } from "../../../../core/ports.ts";
import type { ExternalCalls } from "../external/calls.ts";

export interface ToolModel {
  readonly model: LanguageModel;
  /** Names it in the cache: another model, or another setting of it, is another name. */
  readonly name: string;
  /** Dollars per million tokens; 0 where it costs nothing. */
  readonly usdPerMillionTokens: { readonly input: number; readonly output: number };
  readonly maxTokens: number;
}

const FREE = { inputTokens: 0, outputTokens: 0 };

const OBJECTIONS: Readonly<Record<string, string>> = {
  "too-long": "(the model cannot read so much at once)",
  filtered: "(the model's filter refuses this text)",
};

const Answer = z.strictObject({ text: z.string(), inputTokens: z.int(), outputTokens: z.int() });

/** Its text, or that it takes no such text. Greedy, so that as little as possible depends on who asked first. */
export async function callToolModel(
  tool: string,
  { model, name, usdPerMillionTokens: usd, maxTokens }: ToolModel,
  messages: readonly ChatMessage[],
  outside: ExternalCalls,
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
      const objection = (cause.evidence as { objection?: string } | undefined)?.objection;
      // What it was shown is at fault, and will be next time: no outage, but an answer.
      if (objection !== undefined) return { text: OBJECTIONS[objection] ?? objection, usage: FREE };
      throw new MgrpoError("tool-backend", `${tool}: ${cause.message}`, { retryable: cause.retryable, cause });
    });
    return { text, ...usage };
  };
  const answer = await outside.call(request, Answer, 0, complete, { costOf, canary: context.question.canary });
  context.budget.add(costOf(answer));
  return answer.text.trim();
}
