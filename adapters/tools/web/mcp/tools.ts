/**
 * @file The tools of an MCP server as tools of ours, called `<server>_<tool>`. The server's JSON Schemas are what chat templates describe
 * to the agent, word for word, and what its calls are checked by (ajv).
 */
import { AjvJsonSchemaValidator } from "@modelcontextprotocol/sdk/validation/ajv";
import * as z from "zod";
import { wordingOf } from "../../../../core/contracts/question.ts";
import { escapeSpecialTokens } from "../../../../core/conversation/markers.ts";
import { MgrpoError } from "../../../../core/errors.ts";
import type { Tool } from "../../../../core/ports.ts";
import { abortable } from "../external/cache.ts";
import type { ExternalCalls } from "../external/calls.ts";
import type { McpSettings } from "../settings.ts";
import { type McpServer, McpTool } from "./server.ts";

export async function mcpTools(
  name: string,
  settings: McpSettings,
  server: McpServer,
  outside: ExternalCalls,
): Promise<Tool<Record<string, unknown>>[]> {
  const { only, without, usdPerCall, cached } = settings;
  // What decides its answers, as far as anybody can tell from here; variables' values are secrets and stay out.
  const backend = "command" in settings ? [settings.command, ...settings.arguments].join(" ") : settings.url;
  const all = await outside.call({ tool: `mcp ${name}`, backend, arguments: null }, z.array(McpTool), 0, () =>
    server.tools(),
  );
  const unknown = [...(only ?? []), ...without].filter((wanted) => all.every((tool) => tool.name !== wanted));
  if (unknown.length > 0) {
    const has = all.map((tool) => tool.name).join(", ") || "none";
    throw new MgrpoError("config-invalid", `tools.mcp.${name}: the server has no tool '${unknown[0]}' (it has ${has})`);
  }
  const offered = all.filter((tool) => (only?.includes(tool.name) ?? true) && !without.includes(tool.name));
  for (const tool of offered) refuseMarkers(name, tool);
  const bucket = outside.bucket(settings.requestsPerSecond);

  async function call(tool: string, args: Record<string, unknown>): Promise<string> {
    await bucket.removeTokens(1);
    return server.call(tool, args);
  }

  return offered.map(({ name: tool, description, schema }) => ({
    name: `${name}_${tool}`,
    description,
    parameters: checkedBy(schema, `${name}_${tool}`),
    async run(args, context) {
      const refused = context.budget.take(usdPerCall);
      if (refused) return refused;
      const request = { tool: `mcp ${name} ${tool}`, backend, arguments: z.json().parse(args) };
      const ask = () => call(tool, args);
      const answer = cached
        ? outside.call(request, z.string(), usdPerCall, ask, { canary: context.question.canary })
        : outside.callUncached(usdPerCall, ask);
      const text = await abortable(answer, context.signal);
      if (!outside.guard.leaksQuestion(text, wordingOf(context.question))) return text;
      await outside.countBlocked(1);
      return "its answer cannot be shown";
    },
  }));
}

/** What a tool says of itself goes into the chat template as it stands, so there a role marker would be a real one. */
function refuseMarkers(server: string, tool: McpTool): void {
  const text = JSON.stringify(tool);
  if (escapeSpecialTokens(text) === text) return;
  throw new MgrpoError(
    "config-invalid",
    `tools.mcp.${server}: its tool '${escapeSpecialTokens(tool.name)}' describes itself with role markers or tags of the protocol, which would speak in others' names: leave it out with tools.mcp.${server}.without`,
  );
}

/** A Zod type that checks by a JSON Schema and is described by it, unchanged. */
function checkedBy(schema: McpTool["schema"], name: string): z.ZodType<Record<string, unknown>> {
  let check: ReturnType<AjvJsonSchemaValidator["getValidator"]>;
  try {
    check = new AjvJsonSchemaValidator().getValidator(schema);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new MgrpoError("tool-backend", `tool '${name}': its JSON Schema cannot be used: ${why}`, { cause });
  }
  const { $schema: _, ...described } = schema;
  const checked = z.unknown().superRefine((value, context) => {
    const { valid, errorMessage } = check(value);
    if (!valid) context.addIssue({ code: "custom", message: errorMessage ?? "not of the tool's JSON Schema" });
  });
  return checked.meta(described) as z.ZodType as z.ZodType<Record<string, unknown>>;
}
