/**
 * @file A conversation of an app's agent as the token stream that the gateway would have recorded: with the app's own system message and
 * tools, the agent's turns trained on, and all else context.
 */
import type { AppMessage, OfferedTool } from "../core/contracts/app-chat.ts";
import { nameFault, offeredTool } from "../core/conversation/offered-tool.ts";
import type { Tokenizer } from "../core/ports.ts";
import { type MessageLayout, openMessageLayout } from "../engine/tokenizer/message-layout.ts";
import type { ChatSettings } from "../engine/tokenizer/tool-display.ts";
import { addTurn, type Example } from "./example.ts";
import { invalidDemonstration, type MessagesLine } from "./messages.ts";
import type { ShowResponse } from "./shown-response.ts";

/** Lays out the conversations of one agent. */
export function openAppLayout(
  tokenizer: Tokenizer,
  settings: Omit<ChatSettings, "system" | "tools">,
  show: ShowResponse,
): (line: MessagesLine) => Example {
  const layouts = new Map<string, MessageLayout>();
  const layoutOf = (tools: readonly OfferedTool[]): MessageLayout => {
    const key = JSON.stringify(tools);
    const layout = layouts.get(key) ?? openMessageLayout(tokenizer, { ...settings, system: "", tools });
    layouts.set(key, layout);
    return layout;
  };
  return (line) => exampleOfLine(line, layoutOf(toolsOf(line)), tokenizer, show);
}

function exampleOfLine(
  { system, demonstration, turns }: MessagesLine,
  layout: MessageLayout,
  tokenizer: Tokenizer,
  show: ShowResponse,
): Example {
  const opening: AppMessage[] = [{ role: "user", text: demonstration.prompt }];
  if (system !== undefined) opening.unshift({ role: "system", text: system });
  let messages: readonly AppMessage[] = opening;
  const tokens = layout.opening(messages);
  const spans: [number, number][] = [];
  for (const { text, reply, responses: whole } of turns) {
    const responses = whole.map((response) => ({ ...response, text: show(response.text) }));
    spans.push(addTurn(tokens, text, tokenizer));
    if (responses.length > 0) for (const token of layout.continuation(messages, responses)) tokens.push(token);
    messages = [...messages, reply, ...responses];
  }
  return { tokens, turns: spans };
}

function toolsOf({ tools = [], where }: MessagesLine): OfferedTool[] {
  return tools.map((offer) => {
    const tool = offeredTool(offer);
    if (!tool) throw invalidDemonstration(where, nameFault(offer.name));
    return tool;
  });
}
