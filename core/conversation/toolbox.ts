/**
 * @file What one agent may call: its tools, and `delegate` if it has sub-agents. The tools' Zod schemas check arguments; the chat template
 * shows the same schemas to the agent, as JSON Schema.
 */
import * as z from "zod";
import type { AgentConfig } from "../contracts/agent-config.ts";
import { TASK_BYTES } from "../contracts/bounds.ts";
import { MgrpoError } from "../errors.ts";
import type { Tool, ToolSchema } from "../ports.ts";
import { escapeSpecialTokens } from "./special-tokens.ts";

/** The name of the call that hands a subtask to a sub-agent. */
export const DELEGATE = "delegate";

/** Arguments of `delegate`, whichever sub-agents a team has. */
export const DelegateArguments = z.strictObject({
  agent: z.string(),
  // As a refinement, the limit is not part of the JSON Schema that the agent sees.
  task: z.string().regex(/\S/, "must not be blank").refine(fitsRequest, `is longer than ${TASK_BYTES} bytes`),
});

/** Whether the task, in the form in which its sub-agent gets it, fits into a request. */
function fitsRequest(task: string): boolean {
  return new TextEncoder().encode(JSON.stringify(escapeSpecialTokens(task))).length <= TASK_BYTES;
}

/** What one agent may call, from `openToolbox`. `parseTurn` accepts exactly the names in `parameters`. */
export interface Toolbox {
  readonly tools: ReadonlyMap<string, Tool>;
  /** Sub-agents; empty: no `delegate`. */
  readonly delegates: readonly string[];
  /** Argument schema of every call, `delegate` included. */
  readonly parameters: ReadonlyMap<string, z.ZodType>;
  /** For chat templates: `delegate` first, then the tools in the config's order. */
  readonly schemas: readonly ToolSchema[];
}

/** Throws `recipe-invalid` if the config names a tool that does not exist or cannot be offered. */
export function openToolbox(
  agent: string,
  config: Pick<AgentConfig, "tools" | "delegates">,
  tools: ReadonlyMap<string, Tool>,
): Toolbox {
  const mine = new Map(config.tools.map((name) => [name, toolNamed(name, agent, tools)]));
  if (config.delegates.length > 0 && mine.has(DELEGATE)) {
    throw new MgrpoError(
      "recipe-invalid",
      `agents.${agent}.tools: '${DELEGATE}' is how this agent calls its sub-agents: rename that tool`,
    );
  }
  const parameters = new Map<string, z.ZodType>();
  const schemas: ToolSchema[] = [];
  const offer = (name: string, description: string, schema: z.ZodType) => {
    parameters.set(name, schema);
    schemas.push({ type: "function", function: { name, description, parameters: jsonSchema(name, schema) } });
  };
  if (config.delegates.length > 0) {
    offer(
      DELEGATE,
      "Hands a subtask to a sub-agent and returns its report.",
      DelegateArguments.extend({ agent: z.enum(config.delegates) }),
    );
  }
  for (const tool of mine.values()) offer(tool.name, tool.description, tool.parameters);
  return { tools: mine, delegates: config.delegates, parameters, schemas };
}

function toolNamed(name: string, agent: string, tools: ReadonlyMap<string, Tool>): Tool {
  const tool = tools.get(name);
  if (tool?.name === name) return checkedTool(tool);
  if (tool) {
    throw new MgrpoError(
      "recipe-invalid",
      `agents.${agent}.tools: the recipe's tools.ts has tool '${tool.name}' under the key '${name}': use its name as the key`,
    );
  }
  const known = [...tools.keys()].join(", ") || "none";
  throw new MgrpoError(
    "recipe-invalid",
    `agents.${agent}.tools: the recipe's tools.ts has no tool '${name}' (it has ${known}): add it or remove the name`,
  );
}

/** Catches what the compiler would, in a recipe that is not type-checked. A schema of Zod 3 has no `_zod`. */
function checkedTool(tool: Tool): Tool {
  const { name, parameters, run }: { name: string; parameters: unknown; run: unknown } = tool;
  if (typeof run !== "function") throw new MgrpoError("recipe-invalid", `tool '${name}' has no function run: add one`);
  if (typeof parameters === "object" && parameters !== null && "_zod" in parameters) return tool;
  throw new MgrpoError(
    "recipe-invalid",
    `tool '${name}': its parameters are not a Zod 4 schema: write z.strictObject({ … }), empty for a tool without parameters`,
  );
}

function jsonSchema(name: string, schema: z.ZodType): unknown {
  const { $schema: _, ...rest } = toJsonSchema(name, schema);
  if (rest.type === undefined || rest.type === "object") return rest;
  throw new MgrpoError(
    "recipe-invalid",
    `tool '${name}': its parameters are of type ${rest.type}, but a call's arguments are an object: write z.strictObject({ … })`,
  );
}

function toJsonSchema(name: string, schema: z.ZodType): z.core.JSONSchema.JSONSchema {
  try {
    return z.toJSONSchema(schema, { io: "input" });
  } catch (cause) {
    throw new MgrpoError(
      "recipe-invalid",
      `tool '${name}': its parameters cannot be written as JSON Schema: use plain Zod types`,
      { cause },
    );
  }
}
