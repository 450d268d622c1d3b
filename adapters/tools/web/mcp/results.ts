/**
 * @file What an MCP server returns, as far as it is used. A response of 10 MB can hold three million empty objects, and the SDK's schemas
 * would collect several faults of each, which takes minutes and more memory than the process has. Here, the first faulty item ends the check.
 */
import * as z from "zod";
import { isShallow, MAX_DEPTH } from "../../../../core/contracts/conversation.ts";

type Json = z.infer<ReturnType<typeof z.json>>;

const isObject = (value: unknown): boolean => typeof value === "object" && value !== null && !Array.isArray(value);

/** For objects parsed from JSON: their values are not checked to be JSON, only their depth is. */
const JsonRecord = z
  .custom<Record<string, Json>>(isObject, { error: "expected an object", abort: true })
  .refine(isShallow, { error: `more than ${MAX_DEPTH} levels deep` });

/** A tool as the server describes it; `schema` is its JSON Schema, unchanged. */
export const McpTool = z.strictObject({ name: z.string(), description: z.string(), schema: JsonRecord });
export type McpTool = z.infer<typeof McpTool>;

export const ToolsResult = z.object({ tools: z.array(z.unknown()), nextCursor: z.string().optional() });

const ListedTool = z.object({ name: z.string(), description: z.string().default(""), inputSchema: JsonRecord });

export function toMcpTool(listed: unknown): McpTool {
  const { name, description, inputSchema: schema } = ListedTool.parse(listed);
  return { name, description, schema };
}

export const CallResult = z.object({
  content: z.array(z.unknown()).default([]),
  structuredContent: JsonRecord.optional(),
});

const Block = z.discriminatedUnion("type", [
  z.object({ type: z.literal("text"), text: z.string() }),
  z.object({ type: z.literal("resource"), resource: z.object({ text: z.string().optional() }) }),
  z.object({ type: z.literal("resource_link"), name: z.string(), uri: z.string() }),
  z.object({ type: z.literal(["image", "audio"]) }),
]);

/** Text content; for other content, a link or only its kind. Without any content, the structured content as JSON. */
export function resultText({ content, structuredContent }: z.infer<typeof CallResult>): string {
  const texts = content.map((item) => {
    const block = Block.parse(item);
    if (block.type === "text") return block.text;
    if (block.type === "resource" && block.resource.text !== undefined) return block.resource.text;
    if (block.type === "resource_link") return `[${block.name}](${block.uri})`;
    return `(${block.type} that cannot be shown as text)`;
  });
  if (texts.length === 0 && structuredContent) return JSON.stringify(structuredContent);
  return texts.join("\n") || "(no content)";
}
