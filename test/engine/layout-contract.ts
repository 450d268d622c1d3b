/** @file The contract of chat layouts: a conversation laid out piece by piece has the text that its template writes. */
import { expect } from "vitest";
import { responsesAsText } from "../../core/conversation/tool-prompt.ts";
import type { ChatMessage, Tokenizer } from "../../core/ports.ts";
import { openChatLayout } from "../../engine/tokenizer/chat-layout.ts";
import { type ChatSettings, hasToolRole } from "../../engine/tokenizer/tool-display.ts";

const SYSTEM = "Be brief.";
const QUESTION = "What is the capital of France?";

/** `normalize` is applied to both texts before they are compared. */
export function expectLaidOutAsRendered(
  tokenizer: Tokenizer,
  { thinking, toolPrompt = "auto" }: Partial<Pick<ChatSettings, "thinking" | "toolPrompt">> = {},
  normalize: (text: string) => string = (text) => text,
): void {
  const settings: ChatSettings = { agent: "a", system: SYSTEM, tools: [], thinking, toolPrompt };
  const layout = openChatLayout(tokenizer, settings);
  const turn = [...tokenizer.encodeText("Paris"), tokenizer.endOfTurn];
  const tokens = [...layout.prompt(QUESTION), ...turn, ...layout.responses(["no"], [])];
  const asUser = layout.toolDisplay === "user";
  const asTool = !asUser && hasToolRole(tokenizer, settings, []);
  const opening: ChatMessage[] = asUser
    ? [{ role: "user", content: `${SYSTEM}\n\n${QUESTION}` }]
    : [
        { role: "system", content: SYSTEM },
        { role: "user", content: QUESTION },
      ];
  const messages: ChatMessage[] = [
    ...opening,
    { role: "assistant", content: "Paris" },
    asTool ? { role: "tool", content: "no" } : { role: "user", content: responsesAsText(["no"]) },
  ];
  // A template may put a space before an assistant's text. The agent samples that space, and here it samples none.
  const expected = tokenizer.render(messages, [], true, thinking).replace(" Paris", "Paris");
  expect(normalize(tokenizer.decode(tokens))).toBe(normalize(expected));
}
