/** @file The tool responses of a conversation, cut to the agent's limits as in this program's own loop. */
import type { AgentConfig } from "../../core/contracts/agent-config.ts";
import type { AppMessage } from "../../core/contracts/app-chat.ts";
import { presentResponse } from "../../core/conversation/special-tokens.ts";
import type { Tokenizer } from "../../core/ports.ts";

/**
 * The messages with their tool responses cut. Undefined if `responseTokens` is set and the cut responses take more than twice the tokens of
 * the context. The caller checks shorter ones itself: a conversation that exceeds the context by less may also have reached its turn limit,
 * which is reported first.
 */
export function withCutResponses(
  messages: readonly AppMessage[],
  { responseCharacters, responseTokens: tokens, contextTokens }: AgentConfig["limits"],
  { encodeText }: Pick<Tokenizer, "encodeText">,
): AppMessage[] | undefined {
  const room = tokens === undefined ? undefined : { tokens, count: (text: string) => encodeText(text).length };
  let left = 2 * contextTokens;
  const shown: AppMessage[] = [];
  for (const message of messages) {
    const text = message.role === "tool" ? presentResponse(message.text, responseCharacters, room) : message.text;
    if (message.role === "tool") left -= room?.count(text) ?? 0;
    if (left < 0) return undefined;
    shown.push({ ...message, text });
  }
  return shown;
}
