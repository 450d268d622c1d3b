/**
 * @file What describes an agent's tools to its model: the chat template, the system message, the first user message, or nothing. Whether a
 * template shows tools is decided by rendering a sentinel tool, never by searching the template's source. For `auto`, a template that shows
 * tools but asks for calls in a format other than the parser's (parse-turn.ts) counts as one that shows none.
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
  if (toolPrompt === "auto") {
    // The agent's own system message may contain an example of a call.
    const templateText = shown?.replaceAll(settings.system.trim(), "") ?? "";
    return CALL_FORMAT.test(templateText) ? "template" : "system";
  }
  if (shown !== undefined || showsToolsAlone(tokenizer, settings)) return "template";
  throw new MgrpoError(
    "config-invalid",
    `agents.${agent}.toolPrompt: the model's chat_template shows no tools: write "system", or "none" for a model that has learned its tools`,
  );
}

/** Whether the template shows tools but refuses the system message. `requireSystemMessage` then reports the refusal. */
function showsToolsAlone(tokenizer: Tokenizer, settings: ChatSettings): boolean {
  const { error } = tryRender(tokenizer, messages(settings.system), [SENTINEL], settings.thinking);
  // A template that renders the system message in place of the tools never shows them beside this system message.
  return error !== undefined && renderedSentinel(tokenizer, { ...settings, system: "" }) !== undefined;
}

/** The prompt with the sentinel tool; undefined if the template omits the tool, or accepts none. */
function renderedSentinel(tokenizer: Tokenizer, { system, thinking }: ChatSettings): string | undefined {
  const { text } = tryRender(tokenizer, messages(system), [SENTINEL], thinking);
  return text.includes(SENTINEL.function.name) ? text : undefined;
}

/** Throws `config-invalid` if the template rejects system messages or leaves them out. */
export function requireSystemMessage(
  tokenizer: Tokenizer,
  { agent, system, tools, thinking }: ChatSettings,
  describesTools: boolean,
): void {
  // If the template fails even without a system message, that error is the one to report.
  tokenizer.render(messages(""), [], true, thinking);
  const { text, error: cause } = tryRender(tokenizer, messages(system), tools, thinking);
  if (cause === undefined && text.includes(system.trim())) return;
  const fault = cause === undefined ? "leaves out" : "refuses";
  const message = describesTools ? "the system message that describes its tools" : "the system message";
  const remedy = `set agents.${agent}.toolPrompt to "user", which puts it at the head of the first user message`;
  throw new MgrpoError("config-invalid", `agent '${agent}': its chat_template ${fault} ${message}: ${remedy}`, {
    cause,
  });
}

/**
 * Whether the template renders messages of role `tool`. Some raise an error on them, or on those without a call id.
 * @param shown the tools that the template shows.
 */
export function hasToolRole(tokenizer: Tokenizer, { thinking }: ChatSettings, shown: readonly ToolSchema[]): boolean {
  const conversation: ChatMessage[] = [...messages(""), { role: "assistant", content: "call" }];
  // If the template fails even without a message of that role, that error is the one to report.
  tokenizer.render(conversation, shown, true, thinking);
  const response = "response_of_tool";
  const { text } = tryRender(tokenizer, [...conversation, { role: "tool", content: response }], shown, thinking);
  return text.includes(response);
}

/** The rendered prompt; if the template fails, the empty text and its error. */
function tryRender(
  tokenizer: Tokenizer,
  conversation: readonly ChatMessage[],
  tools: readonly ToolSchema[],
  thinking: boolean | undefined,
): { readonly text: string; readonly error?: MgrpoError } {
  try {
    return { text: tokenizer.render(conversation, tools, true, thinking) };
  } catch (error) {
    if (!isMgrpoError(error, "tokenizer-damaged")) throw error;
    return { text: "", error };
  }
}

function messages(system: string): ChatMessage[] {
  const user: ChatMessage = { role: "user", content: "question" };
  return system === "" ? [user] : [{ role: "system", content: system }, user];
}
