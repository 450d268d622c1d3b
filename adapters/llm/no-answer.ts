/**
 * @file Completions without an answer: no choice, or one without a message. Gemini and the gateways in front of it send them, with status 200,
 * for a prompt or an answer that a filter blocks and for an empty turn.
 */
import * as z from "zod";
import type { TokenUsage } from "../../core/language-model-ports.ts";
import { usageOf } from "./usage.ts";

const NoAnswer = z.object({
  /** With an error, a gateway reports that its backend failed. */
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

/** Undefined if the body is anything else. Without `usage`, the server reports no usable token counts. */
export function noAnswerIn(body: unknown): { readonly usage?: TokenUsage } | undefined {
  const { data } = NoAnswer.safeParse(body);
  if (!data) return undefined;
  const { prompt_tokens, completion_tokens, total_tokens } = data.usage ?? {};
  const usage = usageOf(prompt_tokens, completion_tokens, total_tokens);
  return usage ? { usage } : {};
}
