/**
 * @file One MCP server, reached by the official SDK: a process of this machine (stdio) or a URL (streamable HTTP). Connected when it is
 * first needed. When it dies, the calls in flight fail as its outage (`tool-backend`: the attempt is repeated, so a call may be made twice)
 * and the next call connects anew.
 *
 *     (none) ──first call──> connecting ──> open ──closed, died, HTTP 4xx or 5xx──> (none)
 *                               └── fails: `tool-backend`
 */
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { getDefaultEnvironment, StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport, StreamableHTTPError } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import { CallToolResultSchema, ErrorCode, McpError } from "@modelcontextprotocol/sdk/types.js";
import * as z from "zod";
import { MgrpoError } from "../../../../core/errors.ts";
import { reasonOf } from "../external/backend.ts";
import type { McpSettings } from "../settings.ts";

/** A tool as the server describes it; `schema` is its JSON Schema, word for word. */
export const McpTool = z.strictObject({
  name: z.string(),
  description: z.string(),
  schema: z.record(z.string(), z.json()),
});
export type McpTool = z.infer<typeof McpTool>;

export interface McpServer {
  tools(): Promise<McpTool[]>;
  /** The text of what the tool says; also when it says that the call was wrong. */
  call(name: string, args: Readonly<Record<string, unknown>>): Promise<string>;
  close(): Promise<void>;
}

/** Values of variables, by name: those that the settings name. */
export type Variables = (name: string) => string;

const LONGEST_TEXT = 500_000;
const PAGES_OF_TOOLS = 100;

/** Statuses that no further try mends, and what does. Others may be of a session that the server forgot. */
const REFUSALS: readonly (readonly [number, string])[] = [
  ...[401, 403].map((status) => [status, "it refuses the call: check the variables that its headers name"] as const),
  [402, "it wants to be paid first"],
];

export function openMcpServer(name: string, settings: McpSettings, variables: Variables): McpServer {
  const timeout = Math.ceil(settings.seconds * 1000);
  const values = readVariables(settings, variables);
  let open: Promise<Client> | undefined;

  const failed = (doing: string, cause: unknown) => {
    const status = cause instanceof StreamableHTTPError ? cause.code : undefined;
    const advice = REFUSALS.find(([refusal]) => refusal === status)?.[1];
    const why = advice === undefined ? reasonOf(cause) : `HTTP ${status}: ${advice}`;
    return new MgrpoError("tool-backend", `MCP server '${name}' (${placeOf(settings)}), ${doing}: ${why}`, {
      retryable: advice === undefined,
      cause,
    });
  };

  function connected(): Promise<Client> {
    if (open) return open;
    const client = new Client({ name: "mgrpo", version: "1" });
    const connecting = client.connect(transportOf(settings, values), { timeout }).then(() => client);
    open = connecting;
    const forget = () => {
      if (open === connecting) open = undefined;
    };
    client.onclose = forget;
    connecting.catch(forget);
    return connecting;
  }

  async function using<T>(doing: string, work: (client: Client) => Promise<T>): Promise<T> {
    try {
      return await work(await connected());
    } catch (cause) {
      // A server that does not answer, or answers so over HTTP, may know its session no more: the next call opens another.
      const isLost = cause instanceof McpError && cause.code === ErrorCode.RequestTimeout;
      if (isLost || cause instanceof StreamableHTTPError) {
        const lost = open;
        open = undefined;
        lost?.then((client) => client.close()).catch(() => {});
      }
      throw failed(doing, cause);
    }
  }

  return {
    tools: () =>
      using("listing its tools", async (client) => {
        const found: McpTool[] = [];
        let cursor: string | undefined;
        for (let page = 0; page < PAGES_OF_TOOLS; page++) {
          const { tools, nextCursor } = await client.listTools(cursor === undefined ? {} : { cursor }, { timeout });
          for (const { name: tool, description = "", inputSchema } of tools)
            found.push({ name: tool, description, schema: z.record(z.string(), z.json()).parse(inputSchema) });
          if (nextCursor === undefined) return found;
          cursor = nextCursor;
        }
        throw new Error(`it lists more than ${PAGES_OF_TOOLS} pages of tools`);
      }),
    call: (tool, args) =>
      using(`calling '${tool}'`, async (client) => {
        try {
          const result = await client.callTool({ name: tool, arguments: { ...args } }, CallToolResultSchema, {
            timeout,
          });
          return textOf(CallToolResultSchema.parse(result)).slice(0, LONGEST_TEXT);
        } catch (error) {
          // What the agent asked for was wrong, says the server: the agent's mistake.
          if (error instanceof McpError && error.code === ErrorCode.InvalidParams) return error.message;
          throw error;
        }
      }),
    async close() {
      const client = await open?.catch(() => undefined);
      open = undefined;
      await client?.close();
    },
  };
}

/** What its process or its requests get, read when the tools are opened: a missing one is said then. */
function readVariables(settings: McpSettings, variables: Variables): Record<string, string> {
  const named =
    "command" in settings ? settings.environment.map((name) => [name, name]) : Object.entries(settings.headers);
  return Object.fromEntries(named.map(([key = "", name = ""]) => [key, variables(name)]));
}

function transportOf(settings: McpSettings, values: Record<string, string>): Transport {
  if ("command" in settings) {
    const { command, arguments: args } = settings;
    return new StdioClientTransport({
      command,
      args,
      env: { ...getDefaultEnvironment(), ...values },
      stderr: "ignore",
    });
  }
  // Its `sessionId` is declared without `| undefined`, which exactOptionalPropertyTypes minds.
  return new StreamableHTTPClientTransport(new URL(settings.url), { requestInit: { headers: values } }) as Transport;
}

const placeOf = (settings: McpSettings): string =>
  "command" in settings ? settings.command : new URL(settings.url).origin;

/** Its texts; other content is named. */
function textOf({ content, structuredContent }: z.infer<typeof CallToolResultSchema>): string {
  const texts = content.map((block) => {
    if (block.type === "text") return block.text;
    if (block.type === "resource" && "text" in block.resource) return block.resource.text;
    if (block.type === "resource_link") return `[${block.name}](${block.uri})`;
    return `(${block.type} that cannot be shown as text)`;
  });
  if (texts.length === 0 && structuredContent) return JSON.stringify(structuredContent);
  return texts.join("\n") || "(no content)";
}
