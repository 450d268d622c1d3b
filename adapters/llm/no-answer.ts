/**
 * @file Completions without an answer: `choices` is empty or null, or no choice has a message. Gemini and the gateways to Gemini send them with
 * status 200 when a filter blocks the prompt or the answer, and for an empty turn.
 */
import * as z from "zod";
import type { TokenUsage } from "../../core/language-model-ports.ts";
import { usageOf } from "./usage.ts";

const NoAnswer = z.object({
  /** A body with an error is not one of these completions: in it, a gateway reports that its backend failed. */
  error: z.null().optional(),
  choices: z.array(z.object({ message: z.null().optional() })).nullable(),
  usage: z
    .object({
      prompt_tokens: z.number().optional(),
      completion_tokens: z.number().default(0),
      total_tokens: z.number().optional(),
    })
    .nullable()
    .catch(null),
});

/** Undefined if the body is anything else. The result has no `usage` if the server reports no usable token counts. */
export function noAnswerIn(body: unknown): { readonly usage?: TokenUsage } | undefined {
  const { data } = NoAnswer.safeParse(body);
  if (!data) return undefined;
  const { prompt_tokens, completion_tokens, total_tokens } = data.usage ?? {};
  const usage = usageOf(prompt_tokens, completion_tokens, total_tokens);
  return usage ? { usage } : {};
}
