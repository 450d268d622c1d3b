/**
 * @file Which parts of an agent's token stream are its own words and which are not. The chat template is rendered once per conversation
 * shape, with placeholders for all content. The text between placeholders is the template's own (`encodeTemplate`); content is
 * data (`encodeText`) and can never act as template.
 *
 *     [ system, tools, user header ] question [ assistant header ] SAMPLED [ tool header ] response [ … ] response [ assistant header ] SAMPLED
 *
 * Invariant: the stream is append-only. Sampled tokens are never decoded and encoded again; after a turn only the *tail* that the
 * template adds for the tool responses is appended. A template that rewrites earlier turns is refused with `prefix-drift`.
 */
import { escapeSpecialTokens } from "../../core/conversation/special-tokens.ts";
import { responsesAsText, withTools } from "../../core/conversation/tool-prompt.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { ChatMessage, Tokenizer } from "../../core/ports.ts";
import {
  type ChatSettings,
  hasToolRole,
  requireSystemMessage,
  type ToolDisplay,
  toolDisplayOf,
} from "./tool-display.ts";

export interface ChatLayout {
  /** What describes the agent's tools. */
  readonly toolDisplay: ToolDisplay;
  /** Tokens before the first one that the model samples. */
  prompt(question: string): number[];
  /**
   * Tokens between the end of a turn and the first token of the next one.
   * @param earlier the number of tool responses to each earlier turn.
   */
  responses(texts: readonly string[], earlier: readonly number[]): number[];
}

/** Text pieces of the template between contents, as tokens. */
type Pieces = readonly (readonly number[])[];

/** Private-use characters: no template looks for them, and no rendered text contains them. */
const placeholder = (name: string) => `\uE000${name}\uE001`;
const PLACEHOLDER = /\uE000[a-z0-9-]+\uE001/;
/** What a template writes at the start of a turn to turn thinking on or off, and omits from earlier turns. The token stream keeps it. */
const OPENED_THOUGHT = /<think>\s*(?:<\/think>\s*)?$/;

export function openChatLayout(tokenizer: Tokenizer, settings: ChatSettings): ChatLayout {
  const { agent, tools, thinking } = settings;
  const toolDisplay = toolDisplayOf(tokenizer, settings);
  const opening = openingOf(settings, toolDisplay);
  const shown = toolDisplay === "template" ? tools : [];
  const { system } = opening;
  if (system !== "") requireSystemMessage(tokenizer, { ...settings, system, tools: shown }, toolDisplay === "system");
  const describes = toolDisplay === "system" || toolDisplay === "user";
  const responseMessages = describes || !hasToolRole(tokenizer, settings) ? asUserMessage : asToolMessages;
  const render = (shape: readonly number[]) =>
    tokenizer.render(messagesOf(opening, shape, responseMessages), shown, true, thinking);
  const piecesOf = (text: string, contents: number) => checkedPieces(tokenizer, agent, text, contents);
  const head = piecesOf(render([]), 1);
  const tails = new Map<string, Pieces>();
  const tailOf = (shape: readonly number[]): Pieces => {
    const key = shape.join();
    const tail = tails.get(key) ?? piecesOf(tailText(tokenizer, agent, render, shape), shape.at(-1) ?? 0);
    tails.set(key, tail);
    return tail;
  };
  return {
    toolDisplay,
    prompt: (question) => fill(tokenizer, head, [question]),
    responses: (texts, earlier) => fill(tokenizer, tailOf([...earlier, texts.length]), texts),
  };
}

interface Opening {
  /** The system message; empty: none. */
  readonly system: string;
  /** Before the question, in its message. */
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
    ...responseMessages(Array.from({ length: responses }, (_, i) => placeholder(`turn-${turn}-${i}`))),
  ]);
  return [...opening, ...turns];
}

const asToolMessages = (contents: readonly string[]): ChatMessage[] =>
  contents.map((content) => ({ role: "tool", content }));

/** As the description of the tools announces them, and for templates without a role for tools. */
const asUserMessage = (contents: readonly string[]): ChatMessage[] =>
  contents.length > 0 ? [{ role: "user", content: responsesAsText(contents) }] : [];

/** What the template appends after the last turn of a conversation of that shape. */
function tailText(
  tokenizer: Tokenizer,
  agent: string,
  render: (shape: readonly number[]) => string,
  shape: readonly number[],
): string {
  const opened = render(shape.slice(0, -1));
  const after = render(shape);
  const before = after.startsWith(opened) ? opened : opened.replace(OPENED_THOUGHT, "");
  // Whitespace that the template puts before an assistant's words is sampled by the model.
  const space = /^\s*/.exec(after.slice(before.length))?.[0] ?? "";
  const sampled = before + space + placeholder(`turn-${shape.length - 1}`) + tokenizer.decode([tokenizer.endOfTurn]);
  if (!after.startsWith(sampled)) throw drift(agent, sampled, after);
  return after.slice(sampled.length);
}

function fill(tokenizer: Tokenizer, pieces: Pieces, contents: readonly string[]): number[] {
  const tokens: number[] = [];
  for (const [i, piece] of pieces.entries()) {
    for (const token of piece) tokens.push(token);
    for (const token of tokenizer.encodeText(escapeSpecialTokens(contents[i] ?? ""))) tokens.push(token);
  }
  return tokens;
}

/** A template must write each content once, in order. */
function checkedPieces(tokenizer: Tokenizer, agent: string, text: string, contents: number): Pieces {
  const pieces = text.split(PLACEHOLDER);
  if (pieces.length - 1 === contents) return pieces.map((piece) => tokenizer.encodeTemplate(piece));
  throw new MgrpoError(
    "prefix-drift",
    `agent '${agent}': its chat_template writes ${contents} messages' content ${pieces.length - 1} times: use a template that writes each once`,
    { evidence: text },
  );
}

function drift(agent: string, before: string, after: string): MgrpoError {
  const at = before.split("").findIndex((unit, i) => unit !== after[i]);
  return new MgrpoError(
    "prefix-drift",
    `agent '${agent}': its chat_template rewrites earlier messages when a turn is added (from character ${at}: ` +
      `${JSON.stringify(before.slice(at, at + 30))} became ${JSON.stringify(after.slice(at, at + 30))}): ` +
      "the sampled tokens would not be a prefix of the conversation; use a template that only appends",
    { evidence: { before, after } },
  );
}
