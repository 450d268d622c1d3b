/**
 * @file The text of a turn that an API returned with structured tool calls, in the format of parse-turn.ts: one parser reads every agent,
 * and one kind of record shows it. Each call becomes a `<tool_call>`, and a message without calls becomes the `<answer>`.
 */
import type { ApiToolCall, AssistantTurn } from "../language-model-ports.ts";
import { isJson } from "./json-text.ts";
import { TAGS } from "./parse-turn.ts";

export function turnText(turn: WrittenTurn): string {
  const isAnswer = turn.calls.length === 0 && !(turn.thinking === "" && leavesThinkingOpen(turn.text));
  return sampledText(isAnswer ? { ...turn, text: asAnswer(turn.text) } : turn);
}

/** The turn as an app's agent samples it: an answer to an app is not tagged. */
export function sampledText({ thinking, text, calls }: WrittenTurn): string {
  const thought = thinking === "" ? "" : `<think>\n${thinking}\n</think>\n\n`;
  if (calls.length === 0) return thought + text;
  const before = thought === "" ? closeThinking(text) : text;
  return thought + [before, ...calls.map(callText)].filter(Boolean).join("\n");
}

/** The parser skips everything before the end of thinking, and everything after a `<think>` that is never closed. */
const leavesThinkingOpen = (text: string): boolean => text.includes("<think>") && !text.includes("</think>");

/** Thinking that is never closed would hide the calls after it. */
const closeThinking = (text: string): string => (leavesThinkingOpen(text) ? `${text}\n</think>` : text);

type WrittenTurn = Pick<AssistantTurn, "thinking" | "text" | "calls">;

/** Puts `<answer>` tags around what follows the thinking, unless it is empty or already contains tags. */
function asAnswer(text: string): string {
  const endOfThinking = text.lastIndexOf("</think>");
  const start = endOfThinking < 0 ? 0 : endOfThinking + "</think>".length;
  const answer = text.slice(start).trim();
  return answer === "" || TAGS.test(answer) ? text : `${text.slice(0, start)}<answer>${answer}</answer>`;
}

/**
 * `<` is written as `\u003c`, so no tag inside can end the call. The two are equivalent only within valid JSON. Arguments that are not valid
 * JSON are marked as such and quoted, so that the call does not parse.
 */
function callText({ name, arguments: written }: ApiToolCall): string {
  const given = written.trim() === "" ? "{}" : written;
  const args = isJson(given) ? given : `invalid: ${JSON.stringify(given)}`;
  const json = `{"name": ${JSON.stringify(name)}, "arguments": ${args}}`;
  return `<tool_call>\n${json.replaceAll("<", "\\u003c")}\n</tool_call>`;
}
