/**
 * @file Wraps the tools of an MCP server as `Tool`s, named `<server>_<tool>`. The chat template describes them to the agent with the server's
 * JSON Schemas, unchanged except for `$schema`, which is left out. The same schemas validate the agent's calls (arguments.ts).
 */
import * as z from "zod";
import { originalWording } from "../../../../core/contracts/question.ts";
import { escapeSpecialTokens } from "../../../../core/conversation/special-tokens.ts";
import { MgrpoError } from "../../../../core/errors.ts";
import type { Tool } from "../../../../core/ports.ts";
import { abortable } from "../external/cache.ts";
import type { ExternalCalls } from "../external/calls.ts";
import type { McpSettings } from "../settings.ts";
import { validatedBy } from "./arguments.ts";
import { McpTool } from "./results.ts";
import type { McpServer } from "./server.ts";

export async function mcpTools(
  name: string,
  settings: McpSettings,
  server: McpServer,
  calls: ExternalCalls,
): Promise<Tool<Record<string, unknown>>[]> {
  const { usdPerCall, cached } = settings;
  // Identifies everything that determines the answers, except headers, parameters and environment variables whose values may be secret.
  const backend = "command" in settings ? [settings.command, ...settings.arguments].join(" ") : settings.url;
  const all = await calls.call({ tool: `mcp ${name}`, backend, arguments: null }, z.array(McpTool), 0, async () => {
    const listed = await server.tools();
    // Here too: a list that is refused is not stored, so the next opening asks the server again.
    selectTools(name, settings, listed);
    return listed;
  });
  const offered = selectTools(name, settings, all, STORED);
  const bucket = calls.bucket(settings.requestsPerSecond);

  async function callTool(tool: string, args: Record<string, unknown>): Promise<string> {
    await bucket.removeTokens(1);
    return server.call(tool, args);
  }

  return offered.map(({ name: tool, description, parameters }) => ({
    name: `${name}_${tool}`,
    description,
    parameters,
    async run(args, context) {
      const refused = context.budget.charge(usdPerCall);
      if (refused) return refused;
      const request = { tool: `mcp ${name} ${tool}`, backend, arguments: z.json().parse(args) };
      const ask = () => callTool(tool, args);
      const answer = cached
        ? calls.call(request, z.string(), usdPerCall, ask, { canary: context.question.canary })
        : calls.callUncached(usdPerCall, ask);
      const text = await abortable(answer, context.signal);
      if (!calls.guard.leaksQuestion(text, originalWording(context.question))) return text;
      await calls.countBlocked(1);
      return "its answer cannot be shown";
    },
  }));
}

/** Ends the message about a missing tool if the list of tools is a cached one, which may be older than the server's own. */
const STORED =
  ", according to the cached list: if the server has changed, use another tools.cache.folder or tools.cache.run";

/**
 * The tools to offer, with what validates their calls. Throws if a tool that the settings name does not exist, or if one cannot be offered.
 * @param origin where the list is from, for the message about a tool that does not exist.
 */
function selectTools(name: string, { only, without }: McpSettings, all: readonly McpTool[], origin = "") {
  const unknown = [...(only ?? []), ...without].filter((wanted) => all.every((tool) => tool.name !== wanted));
  if (unknown.length > 0) {
    const has = all.map((tool) => tool.name).join(", ") || "none";
    throw new MgrpoError(
      "config-invalid",
      `tools.mcp.${name}: the server has no tool '${unknown[0]}' (it has ${has}${origin})`,
    );
  }
  const offered = all.filter((tool) => (only?.includes(tool.name) ?? true) && !without.includes(tool.name));
  for (const tool of offered) refuseMarkers(name, tool);
  refuseRepeated(name, offered);
  return offered.map((tool) => ({ ...tool, parameters: validatedBy(tool.schema, `${name}_${tool.name}`) }));
}

/** Stand for content while a template is rendered (engine/tokenizer/template-pieces.ts). */
const PLACEHOLDER = /[\uE000\uE001]/;

/** The chat template inserts definitions verbatim: a role marker would take effect, and only the model would see invisible text. */
function refuseMarkers(server: string, tool: McpTool): void {
  const text = JSON.stringify(tool);
  if (escapeSpecialTokens(text) === text && !PLACEHOLDER.test(text)) return;
  throw new MgrpoError(
    "config-invalid",
    `tools.mcp.${server}: the definition of its tool '${escapeSpecialTokens(tool.name)}' contains role markers or protocol tags, invisible characters, or characters that templates reserve (U+E000, U+E001): exclude the tool with tools.mcp.${server}.without`,
  );
}

/** A call could not say which of two tools with the same name it means. */
function refuseRepeated(server: string, tools: readonly McpTool[]): void {
  const repeated = tools.find(({ name }, i) => tools.findIndex((tool) => tool.name === name) < i);
  if (!repeated) return;
  throw new MgrpoError(
    "config-invalid",
    `tools.mcp.${server}: the server lists two tools named '${repeated.name}': exclude them with tools.mcp.${server}.without`,
  );
}
