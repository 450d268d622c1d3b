/** @file A demonstration's tool response as a rollout shows it: escaped, and cut to the agent's limits. */
import type { AgentConfig } from "../core/contracts/agent-config.ts";
import { CUT_MARK, presentResponse } from "../core/conversation/special-tokens.ts";
import type { Tokenizer } from "../core/ports.ts";

export type ShowResponse = (text: string) => string;

/** A response that a rollout has already cut stays as it is, unless these limits are lower. */
export function responsesWithin(
  { responseCharacters, responseTokens: tokens }: Pick<AgentConfig["limits"], "responseCharacters" | "responseTokens">,
  tokenizer: Pick<Tokenizer, "encodeText">,
): ShowResponse {
  const room =
    tokens === undefined ? undefined : { tokens, count: (text: string) => tokenizer.encodeText(text).length };
  return (text) => {
    if (!text.endsWith(CUT_MARK)) return presentResponse(text, responseCharacters, room);
    const shown = presentResponse(text.slice(0, -CUT_MARK.length), responseCharacters, room);
    return shown.endsWith(CUT_MARK) ? shown : shown + CUT_MARK;
  };
}
