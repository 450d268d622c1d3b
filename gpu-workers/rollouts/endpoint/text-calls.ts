/** @file Tool calls as text, for a model whose server has no tool API: explained and answered as in Qwen's chat template. */
import type { ToolSchema } from "../../../core/ports.ts";

/** The agent's own system message, then the tools, then how to answer. */
export function explainCalls(system: string, tools: readonly ToolSchema[]): string {
  return [system, ...(tools.length > 0 ? [callsOf(tools)] : []), ANSWER].filter(Boolean).join("\n\n");
}

const ANSWER =
  "When you know the answer, write it inside <answer></answer> tags, once, in a message that calls nothing. It ends the conversation.";

function callsOf(tools: readonly ToolSchema[]): string {
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
