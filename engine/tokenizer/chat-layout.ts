/**
 * @file The tokens of a conversation that the policy does not sample: the prompt, and what the chat template adds between turns. The
 * template is rendered with placeholders for the question, turns and responses, and what it writes is cached by the conversation's shape
 * (template-pieces.ts).
 *
 *     [ system, tools, user header ] question [ assistant header ] SAMPLED [ tool header ] response [ … ] response [ assistant header ] SAMPLED
 *
 * Invariant: the stream is append-only. Sampled tokens are never decoded and encoded again; after a turn only the *tail* that the
 * template adds for the tool responses is appended. A template that rewrites earlier turns is refused with `prefix-drift`.
 */
import { escapeSpecialTokens } from "../../core/conversation/special-tokens.ts";
import { responsesAsText, withTools } from "../../core/conversation/tool-prompt.ts";
import type { ChatMessage, Tokenizer } from "../../core/ports.ts";
import { cachedPieces, fill, type Pieces, piecesOf, placeholder, tailText } from "./template-pieces.ts";
import {
  type ChatSettings,
  hasToolRole,
  requireSystemMessage,
  type ToolDisplay,
  toolDisplayOf,
} from "./tool-display.ts";

/** The tokens around sampled turns, in the agent's own tokenizer. Special tokens in questions and responses are escaped, so they stay text. */
export interface ChatLayout {
  /** Where the agent's tools are described to its model. */
  readonly toolDisplay: ToolDisplay;
  /** Tokens before the first one that the model samples. */
  prompt(question: string): number[];
  /**
   * Tokens between the end of a turn and the first token of the next one.
   * @param earlier the number of tool responses to each earlier turn.
   */
  responses(texts: readonly string[], earlier: readonly number[]): number[];
}

/**
 * Renders the opening at once and later turns when `responses` needs them. Both throw `prefix-drift` if the template rewrites, drops or repeats
 * a message, and `tokenizer-damaged` if the template fails; opening throws `config-invalid` if it cannot show the system message or the tools, or
 * has no switch for `thinking`.
 */
export function openChatLayout(tokenizer: Tokenizer, settings: ChatSettings): ChatLayout {
  const { agent, tools, thinking } = settings;
  const toolDisplay = toolDisplayOf(tokenizer, settings);
  const opening = openingOf(settings, toolDisplay);
  const shown = toolDisplay === "template" ? tools : [];
  const { system } = opening;
  if (system !== "") requireSystemMessage(tokenizer, { ...settings, system, tools: shown }, toolDisplay === "system");
  const describes = toolDisplay === "system" || toolDisplay === "user";
  const responseMessages = describes || !hasToolRole(tokenizer, settings, shown) ? asUserMessage : asToolMessages;
  const render = (shape: readonly number[]) =>
    tokenizer.render(messagesOf(opening, shape, responseMessages), shown, true, thinking);
  const head = piecesOf(tokenizer, agent, render([]), ["user"]);
  const cached = cachedPieces();
  const tailOf = (shape: readonly number[]): Pieces =>
    cached(shape.join(), () => {
      const turn = shape.length - 1;
      const text = tailText(tokenizer, agent, render(shape.slice(0, -1)), render(shape), `turn-${turn}`);
      return piecesOf(tokenizer, agent, text, responseNames(turn, shape.at(-1) ?? 0));
    });
  return {
    toolDisplay,
    prompt: (question) => fill(tokenizer, head, [escapeSpecialTokens(question)]),
    responses: (texts, earlier) => fill(tokenizer, tailOf([...earlier, texts.length]), texts.map(escapeSpecialTokens)),
  };
}

interface Opening {
  /** The system message; empty for none. */
  readonly system: string;
  /** Text before the question, in the same message. */
  readonly lead: string;
}

function openingOf({ system, tools }: ChatSettings, display: ToolDisplay): Opening {
  if (display === "system") return { system: withTools(system, tools), lead: "" };
  if (display !== "user") return { system, lead: "" };
  const lead = withTools(system, tools);
  return { system: "", lead: lead === "" ? "" : `${lead}\n\n` };
}

/** A conversation of that shape: `shape[turn]` is the turn's number of tool responses. */
function messagesOf(
  { system, lead }: Opening,
  shape: readonly number[],
  responseMessages: (contents: readonly string[]) => ChatMessage[],
): ChatMessage[] {
  const opening: ChatMessage[] = [{ role: "user", content: lead + placeholder("user") }];
  if (system !== "") opening.unshift({ role: "system", content: system });
  const turns = shape.flatMap((responses, turn): ChatMessage[] => [
    { role: "assistant", content: placeholder(`turn-${turn}`) },
    ...responseMessages(responseNames(turn, responses).map(placeholder)),
  ]);
  return [...opening, ...turns];
}

/** The placeholders of the responses to a turn. */
const responseNames = (turn: number, responses: number): string[] =>
  Array.from({ length: responses }, (_, i) => `turn-${turn}-${i}`);

const asToolMessages = (contents: readonly string[]): ChatMessage[] =>
  contents.map((content) => ({ role: "tool", content }));

/** One user message with all responses: for tools described by our own prompt, which announces this form, and for templates without a tool role. */
const asUserMessage = (contents: readonly string[]): ChatMessage[] =>
  contents.length > 0 ? [{ role: "user", content: responsesAsText(contents) }] : [];
