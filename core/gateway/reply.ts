/**
 * @file Reads a sampled turn as a reply: thinking, free text, and tool calls in the format of parse-turn.ts. Nothing is repaired: if a call
 * cannot be read or names a tool that was not offered, a tag is stray, or there are too many calls, the turn has no calls, and all that
 * follows its thinking is text. This program's own loop runs no call of such a turn either.
 */
import type { AppToolCall, TurnRequest } from "../contracts/app-chat.ts";
import { ToolCall } from "../contracts/conversation.ts";
import { jsonOrUndefined } from "../contracts/parse.ts";
import { memberText, reformat } from "../conversation/json-text.ts";
import { STRAY_TAGS } from "../conversation/parse-turn.ts";

export interface ParsedReply {
  readonly thinking: string;
  readonly text: string;
  readonly calls: readonly Omit<AppToolCall, "id">[];
  /** Number of calls that could not be read or whose tool was not offered, and of stray tags. If there are too many calls, every call counts. */
  readonly unparsed: number;
}

const CALL = /<tool_call>([\s\S]*?)<\/tool_call>/g;
const END_OF_THOUGHT = "</think>";

/** @param maxCalls limit on the calls of one turn. */
export function readReply(
  turn: string,
  { tools, mayCall }: Pick<TurnRequest, "tools" | "mayCall">,
  maxCalls: number,
): ParsedReply {
  const { thinking, text: afterThinking } = splitThinking(turn);
  if (!mayCall || tools.length === 0) return { thinking, text: afterThinking, calls: [], unparsed: 0 };
  const offered = new Set(tools.map((tool) => tool.function.name));
  const calls: Omit<AppToolCall, "id">[] = [];
  let unparsed = 0;
  // Every search from an opening tag in `closed` finds a closing tag, so the matching takes linear time.
  const [closed, end] = cutAfterLast(afterThinking, "</tool_call>");
  const before = closed.replace(CALL, (_block: string, body: string) => {
    const call = callIn(body);
    if (call && offered.has(call.name)) {
      // Numbers keep the digits that were sampled: parsing would round a large integer.
      calls.push({
        name: call.name,
        arguments: reformat(memberText(body, "arguments") ?? JSON.stringify(call.arguments), ""),
      });
      return "";
    }
    unparsed += 1;
    return "";
  });
  // Tags that open or close nothing. The line break keeps the text on both sides of a call from joining into a tag.
  const around = closed.replace(CALL, "\n") + end;
  unparsed += [...around.matchAll(new RegExp(STRAY_TAGS, "g"))].length;
  if (calls.length > maxCalls) unparsed += calls.length;
  if (unparsed > 0) return { thinking, text: afterThinking, calls: [], unparsed };
  return { thinking, text: calls.length > 0 ? (before + end).trim() : afterThinking, calls, unparsed };
}

/** A turn's thinking and its text. The text is what follows the thinking or, if the turn was cut while thinking, what precedes it. */
export function splitThinking(turn: string): { thinking: string; text: string } {
  const end = turn.lastIndexOf(END_OF_THOUGHT);
  if (end >= 0) {
    const thought = turn.slice(0, end).replace(/^\s*<think>/, "");
    return { thinking: thought.trim(), text: turn.slice(end + END_OF_THOUGHT.length).trimStart() };
  }
  const start = turn.indexOf("<think>");
  return start < 0
    ? { thinking: "", text: turn }
    : { thinking: turn.slice(start + "<think>".length).trim(), text: turn.slice(0, start) };
}

const callIn = (body: string): ToolCall | undefined => ToolCall.safeParse(jsonOrUndefined(body)).data;

/** The answer in a text: the content of its only pair of `<answer>` tags; all of the text if it has none, or several. */
export function answerIn(text: string): string {
  const [closed] = cutAfterLast(text, "</answer>");
  const tagged = [...closed.matchAll(/<answer>([\s\S]*?)<\/answer>/g)];
  return (tagged.length === 1 ? (tagged[0]?.[1] ?? "") : text).trim();
}

function cutAfterLast(text: string, tag: string): [string, string] {
  const at = text.lastIndexOf(tag);
  const end = at < 0 ? 0 : at + tag.length;
  return [text.slice(0, end), text.slice(end)];
}
