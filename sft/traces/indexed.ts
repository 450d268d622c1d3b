/** @file Model calls whose messages are flattened into numbered attributes: OpenInference's and OpenLLMetry's. */
import * as z from "zod";
import { type JsonObject, jsonIn, listAt, parseAttribute } from "./json.ts";
import { hasCalls, RawMessage } from "./message.ts";
import { choicesOf, type RecordedCall } from "./recorded-call.ts";
import { ToolDefinition } from "./tools.ts";

const Messages = z.array(RawMessage);
const Tools = z.array(ToolDefinition);

/** `gen_ai.prompt.0.role`, `gen_ai.completion.0.tool_calls.0.name`, `llm.request.functions.0.name`. */
export function openLlmetry(attributes: JsonObject): RecordedCall | undefined {
  const [input, output] = ["gen_ai.prompt", "gen_ai.completion"].map((prefix) => read(attributes, prefix, Messages));
  if (!input && !output) return;
  const tools = read(attributes, "llm.request.functions", Tools);
  return { input: input ?? [], choices: choicesOf(output ?? []), tools };
}

/** `llm.input_messages.0.message.role`, `llm.output_messages.0.message.content`, `llm.tools.0.tool.json_schema`. */
export function openInference(attributes: JsonObject): RecordedCall | undefined {
  const [input, output] = ["llm.input_messages", "llm.output_messages"].map((prefix) => read(attributes, prefix, Rows));
  if (!input && !output) return;
  const choices = isOneResponse(attributes, output ?? []) ? [output ?? []] : choicesOf(output ?? []);
  return { input: input ?? [], choices, tools: read(attributes, "llm.tools", ToolRows) };
}

/** Whether output messages are the items of one response of the Responses API: one of them calls a tool, and the request asks for no alternatives. */
function isOneResponse({ "llm.invocation_parameters": written }: JsonObject, output: readonly RawMessage[]): boolean {
  const parameters = typeof written === "string" ? jsonIn(written) : written;
  const { n, candidate_count: candidates } = (parameters ?? {}) as JsonObject;
  return !(Number(n ?? candidates ?? 1) > 1) && output.some(hasCalls);
}

function read<S extends z.ZodType>(attributes: JsonObject, prefix: string, schema: S): z.infer<S> | undefined {
  const list = listAt(attributes, prefix);
  return list && parseAttribute(schema, list, prefix);
}

const OpenInferenceToolCall = z.object({
  id: z.string().optional(),
  function: z.object({ name: z.string(), arguments: z.json().optional() }),
});

const ContentPart = z.object({
  message_content: z.object({ type: z.string(), text: z.string().optional() }).optional(),
  tool_call: OpenInferenceToolCall.optional(),
});

const Rows = z.array(
  z
    .object({
      message: z.object({
        role: z.string(),
        content: z.string().optional(),
        contents: z.array(ContentPart).optional(),
        tool_calls: z.array(z.object({ tool_call: OpenInferenceToolCall })).optional(),
        tool_call_id: z.string().optional(),
      }),
    })
    .transform(({ message: { contents, content, tool_calls: calls, ...rest } }): unknown => ({
      ...rest,
      content: contents?.map(({ message_content: part, tool_call: call }) => call ?? part ?? {}) ?? content,
      tool_calls: calls?.map(({ tool_call: call }) => call),
    }))
    .pipe(RawMessage),
);

const ToolRows = z.array(
  z
    .object({ tool: z.object({ json_schema: z.string() }) })
    .transform(({ tool }): unknown => jsonIn(tool.json_schema))
    .pipe(ToolDefinition),
);
