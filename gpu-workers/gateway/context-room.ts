/**
 * @file Finds conversations that are too long for an agent's context. Only about as much of their text is tokenized as could fit: to tokenize
 * a few megabytes would take longer than a worker's lease.
 */
import type { AppMessage } from "../../core/contracts/app-chat.ts";
import { escapeSpecialTokens } from "../../core/conversation/special-tokens.ts";
import type { TokenRoom, ToolSchema } from "../../core/ports.ts";

/** If all texts together have at most this many characters per token of room, none is probed: the caller counts the conversation's tokens. */
const PROBE_CHARACTERS_PER_TOKEN = 8;

/** The limit that a conversation exceeds. */
export interface ContextLimit {
  readonly agent: string;
  readonly contextTokens: number;
}

const settingOf = ({ agent, contextTokens }: ContextLimit) =>
  `agents.${agent}.limits.contextTokens is ${contextTokens}`;

/** The message for a conversation that is found too long before all its text is tokenized. */
export const overflow = (limit: ContextLimit) => `the conversation takes more tokens than fit: ${settingOf(limit)}`;

/** Why the messages cannot fit, before they are rendered: each takes at least one token. Undefined: they may fit. */
export function tooManyMessagesFault(messages: readonly AppMessage[], limit: ContextLimit): string | undefined {
  if (messages.length <= limit.contextTokens) return undefined;
  return `the conversation has ${messages.length} messages, and ${settingOf(limit)}`;
}

/**
 * Why the messages cannot fit, before they are tokenized. Undefined: they may fit.
 * @param tools those that the model sees. @param room the tokens left for them.
 */
export function tooMuchTextFault(
  messages: readonly AppMessage[],
  tools: readonly ToolSchema[],
  room: TokenRoom,
  limit: ContextLimit,
): string | undefined {
  const shown = tools.length > 0 ? [JSON.stringify(tools)] : [];
  if (!exceeds([...messages.flatMap(textsOf), ...shown], room)) return undefined;
  return overflow(limit);
}

/** What a message's tokens are made from, apart from the template's own text. */
function textsOf(message: AppMessage): string[] {
  if (message.role === "tool") return [escapeSpecialTokens(message.text)];
  const calls = message.role === "assistant" ? message.calls : [];
  return [message.text, ...calls.flatMap((call) => [call.name, call.arguments])];
}

/** Whether the texts take more tokens than the room has; false, without counting, if they are short. A long text is probed from its start. */
function exceeds(texts: readonly string[], { tokens, count }: TokenRoom): boolean {
  const probe = PROBE_CHARACTERS_PER_TOKEN * Math.max(1, tokens);
  if (texts.reduce((sum, { length }) => sum + length, 0) <= probe) return false;
  let left = tokens;
  for (const text of texts) {
    for (let ahead = probe; ahead < text.length; ahead *= 2) {
      if (count(text.slice(0, ahead)) > left) return true;
    }
    left -= count(text);
    if (left < 0) return true;
  }
  return false;
}
