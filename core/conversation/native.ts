/**
 * @file A turn of an API with tool calls of its own, written down in the one language of conversations (turn.ts), so that one parser
 * reads every agent and one record shows it. Nothing is added to what was said but the tags that the API says in another way: a call
 * is a `<tool_call>`, and a message that calls nothing is the answer.
 */
import type { ApiToolCall, AssistantTurn } from "../language-model-ports.ts";
import { TAGS } from "./turn.ts";

export function writeTurn({ thinking, text, calls }: Pick<AssistantTurn, "thinking" | "text" | "calls">): string {
  const thought = thinking === "" ? "" : `<think>\n${thinking}\n</think>\n\n`;
  if (calls.length === 0) return thought + asAnswer(text);
  return thought + [text, ...calls.map(writeCall)].filter(Boolean).join("\n");
}

/** A text that uses the tags itself is taken at its word. */
function asAnswer(text: string): string {
  const start = text.lastIndexOf("</think>") < 0 ? 0 : text.lastIndexOf("</think>") + "</think>".length;
  const said = text.slice(start).trim();
  return said === "" || TAGS.test(said) ? text : `${text.slice(0, start)}<answer>${said}</answer>`;
}

/** No tag inside the JSON can end the call: JSON writes `<` as `\u003c` just as well. Arguments that are no JSON stay what they are. */
function writeCall({ name, arguments: written }: ApiToolCall): string {
  const args = written.trim() === "" ? "{}" : written;
  const json = `{"name": ${JSON.stringify(name)}, "arguments": ${args}}`;
  return `<tool_call>\n${json.replaceAll("<", "\\u003c")}\n</tool_call>`;
}
