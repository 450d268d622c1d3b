/** @file How an assistant's turns are written in demonstrations: Qwen's tool calls, and the final answer. */

/** A turn of tool calls; several calls in one turn run in parallel. */
export function callTurn(
  ...calls: readonly { readonly name: string; readonly arguments: Readonly<Record<string, string>> }[]
): string {
  return calls.map((call) => `<tool_call>\n${spaced(call)}\n</tool_call>`).join("\n");
}

/** The last turn, with the answer verbatim: to `parseTurn`, an empty answer or one with a protocol tag is malformed. */
export const answerTurn = (answer: string): string => `<answer>${answer}</answer>`;

/** JSON as Qwen writes it, with a space after colons and commas. */
function spaced({ name, arguments: args }: { name: string; arguments: Readonly<Record<string, string>> }): string {
  const pairs = Object.entries(args).map(([key, value]) => `${JSON.stringify(key)}: ${JSON.stringify(value)}`);
  return `{"name": ${JSON.stringify(name)}, "arguments": {${pairs.join(", ")}}}`;
}
