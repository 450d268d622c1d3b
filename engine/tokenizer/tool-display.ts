/**
 * @file What describes an agent's tools to its model: the chat template, the system message, the first user message, or nothing. Decided by
 * rendering a sentinel tool, never by searching the template's source. The parser reads one format (parse-turn.ts): a template that shows tools but asks for
 * calls in another format counts as one that shows none.
 */
import type { ToolPrompt } from "../../core/contracts/agent-config.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { ChatMessage, Tokenizer, ToolSchema } from "../../core/ports.ts";

export type ToolDisplay = "template" | "system" | "user" | "none";

/** What a conversation's layout depends on. */
export interface ChatSettings {
  /** Names the agent in errors. */
  readonly agent: string;
  /** System message; empty for none. */
  readonly system: string;
  readonly tools: readonly ToolSchema[];
  /** The template's `enable_thinking`; absent: the template's own default. */
  readonly thinking?: boolean | undefined;
  /** Absent: auto. */
  readonly toolPrompt?: ToolPrompt | undefined;
}

/** A tool that no agent has. */
export const SENTINEL: ToolSchema = {
  type: "function",
  function: {
    name: "sentinel_of_tools",
    description: "Marks where tools are shown.",
    parameters: { type: "object", properties: { word: { type: "string" } }, required: ["word"] },
  },
};
/** An example of a call as the parser reads it. */
const CALL_FORMAT = /<tool_call>\s*\{/;

export function toolDisplayOf(tokenizer: Tokenizer, settings: ChatSettings): ToolDisplay {
  const { agent, tools, toolPrompt = "auto" } = settings;
  if (toolPrompt === "user") return "user";
  if (tools.length === 0 || toolPrompt === "none") return "none";
  if (toolPrompt === "system") return "system";
  if (toolPrompt === "auto" && tokenizer.knowsTools) return "none";
  const shown = renderedSentinel(tokenizer, settings);
  if (toolPrompt === "auto") return shown !== undefined && CALL_FORMAT.test(shown) ? "template" : "system";
  if (shown !== undefined) return "template";
  throw new MgrpoError(
    "config-invalid",
    `agents.${agent}.toolPrompt: its chat_template shows no tools: write "system", or "none" for a model that learned them`,
  );
}

/** The prompt with a sentinel tool; undefined if the template leaves it out, or accepts no tools. */
function renderedSentinel(tokenizer: Tokenizer, { system, thinking }: ChatSettings): string | undefined {
  const prompt = messages(system);
  try {
    const text = tokenizer.render(prompt, [SENTINEL], true, thinking);
    return text.includes(SENTINEL.function.name) ? text : undefined;
  } catch (error) {
    if (!isMgrpoError(error, "tokenizer-damaged")) throw error;
    return undefined;
  }
}

/** Refuses a template that rejects system messages or leaves them out. */
export function requireSystemMessage(
  tokenizer: Tokenizer,
  { agent, system, tools, thinking }: ChatSettings,
  describesTools: boolean,
): void {
  const message = describesTools ? "the system message that describes its tools" : "the system message";
  const remedy = `set agents.${agent}.toolPrompt to "user", which puts it at the head of the first user message`;
  const refuse = (fault: string, cause?: unknown) => {
    throw new MgrpoError("config-invalid", `agent '${agent}': its chat_template ${fault} ${message}: ${remedy}`, {
      cause,
    });
  };
  // A template that fails without the message too is refused by the caller's own rendering.
  tokenizer.render(messages(""), [], true, thinking);
  try {
    if (!tokenizer.render(messages(system), tools, true, thinking).includes(system.trim())) refuse("leaves out");
  } catch (error) {
    if (!isMgrpoError(error, "tokenizer-damaged")) throw error;
    refuse("refuses", error);
  }
}

/** Whether the template writes tool responses as messages of their own: some raise at them, or without an id of the call. */
export function hasToolRole(tokenizer: Tokenizer, { thinking }: ChatSettings): boolean {
  const conversation: ChatMessage[] = [...messages(""), { role: "assistant", content: "call" }];
  tokenizer.render(conversation, [], true, thinking);
  try {
    const response = "response_of_tool";
    return tokenizer
      .render([...conversation, { role: "tool", content: response }], [], true, thinking)
      .includes(response);
  } catch (error) {
    if (!isMgrpoError(error, "tokenizer-damaged")) throw error;
    return false;
  }
}

function messages(system: string): ChatMessage[] {
  const user: ChatMessage = { role: "user", content: "question" };
  return system === "" ? [user] : [{ role: "system", content: system }, user];
}
