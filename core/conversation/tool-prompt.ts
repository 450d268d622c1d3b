/**
 * @file Tools and their calls as text, in the format of parse-turn.ts: for a model whose server has no tool API, and for one whose chat
 * template shows no tools, or shows them in another format.
 */
import type { ToolSchema } from "../ports.ts";

/** The agent's own system message, then the tools, then how to answer. */
export function explainCalls(system: string, tools: readonly ToolSchema[]): string {
  return [withTools(system, tools), ANSWER].filter(Boolean).join("\n\n");
}

/** The agent's own system message, then the tools. */
export function withTools(system: string, tools: readonly ToolSchema[]): string {
  return [system, ...(tools.length > 0 ? [toolsSection(tools)] : [])].filter(Boolean).join("\n\n");
}

const ANSWER =
  "When you know the answer, write it inside <answer></answer> tags, once, in a message that calls nothing. It ends the conversation.";

function toolsSection(tools: readonly ToolSchema[]): string {
  return `# Tools

You may call functions. Their signatures:
<tools>
${tools.map((tool) => JSON.stringify(tool)).join("\n")}
</tools>

For each call, write a JSON object with the function's name and its arguments inside tags, like this:
<tool_call>
{"name": "...", "arguments": {...}}
</tool_call>

End your message after the calls. What they return comes in the next message, inside <tool_response></tool_response> tags.`;
}

/** The responses of a turn, as Qwen's template shows them. */
export function responsesAsText(responses: readonly string[]): string {
  return responses.map((text) => `<tool_response>\n${text}\n</tool_response>`).join("\n");
}
