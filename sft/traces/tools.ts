/** @file Tool definitions in any of the conventions for traces, converted to OpenAI's format. */
import * as z from "zod";
import { exactText, type JsonValue, jsonIn, UnusableTraceError } from "./json.ts";

export interface FunctionTool {
  readonly type: "function";
  readonly function: { readonly name: string; readonly description?: string; readonly parameters?: unknown };
}

/** Undefined: a tool that no recipe can have, such as one that the provider runs. */
export type ToolDefinition = z.output<typeof ToolDefinition>;

const text = z
  .string()
  .nullish()
  .transform((text) => text ?? undefined);
const JsonSchema = z.union([z.json(), z.undefined()]);

/** OpenLLMetry writes the parameters as a string, `null` if there are none. A string that is not JSON is kept: `ownTools` refuses it. */
function parametersOf(schema: unknown): unknown {
  if (typeof schema !== "string") return schema;
  const json = jsonIn(schema);
  return json === undefined ? schema : json;
}

const functionTool = (name: string, description: string | undefined, parameters: unknown): FunctionTool => ({
  type: "function",
  function: {
    name,
    ...(description ? { description } : {}),
    ...(parameters ? { parameters: JSON.parse(exactText(parameters as JsonValue)) } : {}),
  },
});

/** A tool that no recipe can have. A function in none of the conventions' forms is malformed. */
const OtherTool = z.looseObject({ type: z.string().refine((type) => type !== "function") });

export const ToolDefinition = z.union([
  z
    .object({ function: z.object({ name: z.string(), description: text, parameters: JsonSchema.optional() }) })
    .transform(({ function: { name, description, parameters } }): FunctionTool | undefined => {
      return functionTool(name, description, parametersOf(parameters));
    }),
  z
    .object({
      type: z.literal("function").optional(),
      name: z.string(),
      description: text,
      parameters: JsonSchema.optional(),
      inputSchema: JsonSchema.optional(),
      input_schema: JsonSchema.optional(),
    })
    .transform((tool): FunctionTool | undefined => {
      const parameters = parametersOf(tool.parameters ?? tool.inputSchema ?? tool.input_schema);
      return functionTool(tool.name, tool.description, parameters);
    }),
  // Anthropic's type of a tool that the app runs. OpenAI has a type of the same name, but without a schema: its input is free text.
  z
    .object({ type: z.literal("custom"), name: z.string(), description: text, input_schema: z.json() })
    .transform(({ name, description, input_schema }): FunctionTool | undefined => {
      return functionTool(name, description, parametersOf(input_schema));
    }),
  OtherTool.transform((): FunctionTool | undefined => undefined),
]);

/** The definitions of the tools that a recipe can have. Throws `UnusableTraceError`. */
export function ownTools(definitions: readonly ToolDefinition[]): FunctionTool[] {
  const own = definitions.filter((tool): tool is FunctionTool => tool !== undefined);
  if (own.every(({ function: { parameters } }) => typeof parameters !== "string")) return own;
  throw new UnusableTraceError("a tool's parameters are not JSON: were they truncated by an attribute length limit?");
}
