/** @file Tools whose calls run within something, such as an AsyncLocalStorage. */
import type { Tool } from "./ports.ts";

/**
 * The same tools by name. `within` gets the name of the tool and its call, and returns what the call returns. A tool whose `run` is not a
 * function is left as it is: it is refused where an agent is offered it.
 */
export function toolsWithin(
  tools: ReadonlyMap<string, Tool>,
  within: <T>(name: string, call: () => T) => T,
): ReadonlyMap<string, Tool> {
  return new Map(
    [...tools].map(([name, tool]) => [name, typeof tool?.run === "function" ? toolWithin(name, tool, within) : tool]),
  );
}

function toolWithin(key: string, tool: Tool, within: <T>(name: string, call: () => T) => T): Tool {
  const { name, description, parameters } = tool;
  return { name, description, parameters, run: (args, context) => within(key, () => tool.run(args, context)) };
}
