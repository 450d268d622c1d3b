/**
 * @file One MCP server, through the official SDK: a process on this machine (stdio) or a URL (streamable HTTP). The first call connects. When
 * the server dies, the calls in flight fail with `tool-backend` (an outage: the attempt is retried, so a call may be made twice), and the
 * next call reconnects.
 *
 *     (none) ──first call──> connecting ──> open ──died, timed out, HTTP failed──> (none)
 *                               └── fails: `tool-backend`
 *     any ──close──> closed: a later call rejects with `canceled` and starts no process
 *
 * After a timeout or a failure of HTTP, the other calls in flight end on the old connection, which is closed after the last of them.
 */
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { getDefaultEnvironment, StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport, StreamableHTTPError } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import { ErrorCode, McpError } from "@modelcontextprotocol/sdk/types.js";
import { boundReason } from "../../../../core/contracts/bounds.ts";
import { MgrpoError } from "../../../../core/errors.ts";
import type { Redact } from "../../../../core/redact.ts";
import { toWellFormedJson } from "../../../../core/well-formed.ts";
import { isHeader } from "../../../http-header.ts";
import { reasonOf } from "../external/backend.ts";
import type { McpSettings } from "../settings.ts";
import { boundedFetch } from "./bounded-fetch.ts";
import { keepErrorOutput, lastReason } from "./error-output.ts";
import { CallResult, type McpTool, resultText, ToolsResult, toMcpTool } from "./results.ts";

export interface McpServer {
  tools(): Promise<McpTool[]>;
  /** The tool's text response, which may report a faulty call. */
  call(name: string, args: Readonly<Record<string, unknown>>): Promise<string>;
  /** Resolves once all connections are closed, including those that calls have given up on. Later calls reject with `canceled`. */
  close(): Promise<void>;
}

/** The value of an environment variable that the settings name. */
export type ReadVariable = (name: string) => string;

const MAX_TEXT_CHARACTERS = 500_000;
/** Per HTTP response. The SDK's limit for stdio is about the same. */
const MAX_RESPONSE_BYTES = 10_000_000;
const [MAX_TOOL_PAGES, MAX_TOOLS, MAX_TOOL_CHARACTERS] = [100, 1000, 10_000_000];

interface Connection {
  readonly client: Promise<Client>;
  /** Closes it, whether or not it is open yet: calls in flight fail. Resolves once its process has ended. */
  readonly close: () => Promise<void>;
  /** The end of what a process wrote to standard error. */
  readonly errorOutput: () => string;
  /** In flight. */
  calls: number;
}

/** HTTP statuses that no retry fixes, with the reason. Other statuses may mean that the server lost the session. */
const REFUSALS: readonly (readonly [number, string])[] = [
  ...[401, 403].map(
    (status) => [status, "it refuses the call: check the variables that its headers and query name"] as const,
  ),
  [402, "it requires payment"],
  // The SDK follows redirects within the server's origin only: another origin would receive the secrets in the headers.
  ...[301, 302, 303, 307, 308].map(
    (status) => [status, "it redirects elsewhere: check its url in the settings"] as const,
  ),
];

/** Throws `config-invalid` if a header cannot be sent. */
export function openMcpServer(
  name: string,
  settings: McpSettings,
  readVariable: ReadVariable,
  redact: Redact,
): McpServer {
  const values = readVariables(settings, readVariable);
  if ("url" in settings) refuseUnsendableHeaders(name, settings.headers, values.own);
  return new McpConnection(name, settings, values, redact);
}

class McpConnection implements McpServer {
  readonly #name: string;
  readonly #settings: McpSettings;
  readonly #values: Values;
  readonly #redact: Redact;
  readonly #timeoutMilliseconds: number;
  /** The one for new calls. */
  #current: Connection | undefined;
  readonly #open = new Set<Connection>();
  readonly #closing = new Set<Promise<void>>();
  #isClosed = false;

  constructor(name: string, settings: McpSettings, values: Values, redact: Redact) {
    this.#name = name;
    this.#settings = settings;
    this.#values = values;
    this.#redact = redact;
    this.#timeoutMilliseconds = Math.ceil(settings.seconds * 1000);
  }

  tools(): Promise<McpTool[]> {
    return this.#request("listing its tools", async (client) => {
      const tools: McpTool[] = [];
      let characters = 0;
      let cursor: string | undefined;
      for (let page = 0; page < MAX_TOOL_PAGES; page++) {
        const request = { method: "tools/list", ...(cursor !== undefined && { params: { cursor } }) } as const;
        // `client.listTools` also compiles the output schemas, which nothing uses: a faulty one would make all tools unusable.
        const listed = await client.request(request, ToolsResult, { timeout: this.#timeoutMilliseconds });
        if (tools.length + listed.tools.length > MAX_TOOLS) throw new Error(`it lists more than ${MAX_TOOLS} tools`);
        characters += JSON.stringify(listed.tools).length;
        if (characters > MAX_TOOL_CHARACTERS)
          throw new Error(`it describes its tools in more than ${MAX_TOOL_CHARACTERS} characters`);
        tools.push(...listed.tools.map(toMcpTool));
        if (listed.nextCursor === undefined) return tools;
        cursor = listed.nextCursor;
      }
      throw new Error(`it lists more than ${MAX_TOOL_PAGES} pages of tools`);
    });
  }

  call(tool: string, args: Readonly<Record<string, unknown>>): Promise<string> {
    return this.#request(`calling '${tool}'`, async (client) => {
      // A Python server drops a message with an unpaired surrogate, and the call would time out.
      const params = { name: tool, arguments: toWellFormedJson({ ...args }) };
      const timeout = this.#timeoutMilliseconds;
      try {
        // `client.callTool` also validates structured content against the tool's output schema, and blames the arguments for a mismatch.
        const result = await client.request({ method: "tools/call", params }, CallResult, { timeout });
        return this.#shown(resultText(result));
      } catch (error) {
        // The server rejects the arguments: the agent's mistake, and text for the agent.
        if (error instanceof McpError && error.code === ErrorCode.InvalidParams) return this.#shown(error.message);
        throw error;
      }
    });
  }

  /** Redacts before truncating, so that no part of a secret remains. */
  #shown(text: string): string {
    return this.#redact(text).slice(0, MAX_TEXT_CHARACTERS);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const connection of this.#open) this.#disconnect(connection);
    await Promise.all(this.#closing);
  }

  async #request<T>(operation: string, work: (client: Client) => Promise<T>): Promise<T> {
    if (this.#isClosed) throw new MgrpoError("canceled", `MCP server '${this.#name}', ${operation}: it was closed`);
    let connection: Connection | undefined;
    try {
      connection = this.#connect();
      connection.calls += 1;
      return await work(await connection.client);
    } catch (cause) {
      if (connection && isSessionLost(cause)) this.#forget(connection);
      throw this.#outage(operation, cause, connection);
    } finally {
      if (connection) this.#endCall(connection);
    }
  }

  #connect(): Connection {
    if (this.#current) return this.#current;
    const client = new Client({ name: "mgrpo", version: "1" });
    const transport = transportOf(this.#settings, this.#values, () => connection.calls);
    const close = closeOnce(transport);
    const errorOutput = keepErrorOutput(transport);
    const connecting = client.connect(transport, { timeout: this.#timeoutMilliseconds }).then(() => client);
    const connection: Connection = { client: connecting, close, errorOutput, calls: 0 };
    client.onclose = () => this.#forget(connection);
    connecting.catch(() => this.#forget(connection));
    this.#current = connection;
    this.#open.add(connection);
    return connection;
  }

  /** The next call opens another connection. A newer one stays: a call may time out after another call has reconnected. */
  #forget(lost: Connection): void {
    if (this.#current === lost) this.#current = undefined;
    if (lost.calls === 0) this.#disconnect(lost);
  }

  #endCall(connection: Connection): void {
    connection.calls -= 1;
    if (connection.calls === 0 && this.#current !== connection) this.#disconnect(connection);
  }

  #disconnect(connection: Connection): void {
    if (!this.#open.delete(connection)) return;
    if (this.#current === connection) this.#current = undefined;
    const closing = connection.close().catch(() => {});
    this.#closing.add(closing);
    closing.then(() => this.#closing.delete(closing));
  }

  #outage(operation: string, cause: unknown, connection: Connection | undefined): MgrpoError {
    const status = cause instanceof StreamableHTTPError ? cause.code : undefined;
    const advice = REFUSALS.find(([refusal]) => refusal === status)?.[1];
    const why = advice === undefined ? this.#reason(cause, connection) : `HTTP ${status}: ${advice}`;
    const server = `MCP server '${this.#name}' (${addressOf(this.#settings)})`;
    const retryable = advice === undefined;
    return new MgrpoError("tool-backend", `${server}, ${operation}: ${why}`, { retryable, cause });
  }

  /** One line: an HTTP error contains the whole page that came with it. Redacts before truncating, too. */
  #reason(cause: unknown, connection: Connection | undefined): string {
    const hasEnded = cause instanceof McpError && cause.code === ErrorCode.ConnectionClosed;
    const last = hasEnded ? lastReason(this.#redact(connection?.errorOutput() ?? "")) : undefined;
    const output = last === undefined ? "" : `; it wrote to standard error: ${last}`;
    return boundReason(`${this.#redact(reasonOf(cause))}${output}`.replace(/\s+/g, " ").trim());
  }
}

/**
 * After a timeout, an HTTP error or a failed request, which is a TypeError of `fetch`, the server may have lost the session, so the next call
 * opens a new one.
 */
const isSessionLost = (cause: unknown) =>
  cause instanceof StreamableHTTPError ||
  cause instanceof TypeError ||
  (cause instanceof McpError && cause.code === ErrorCode.RequestTimeout);

/** What the server gets from the environment. */
interface Values {
  /** The variables of its process, or the headers of requests. */
  readonly own: Record<string, string>;
  /** The parameters of its URL's query. */
  readonly query: Record<string, string>;
}

/** Reads the variables when the tools are opened, so that a missing one is reported then. */
function readVariables(settings: McpSettings, readVariable: ReadVariable): Values {
  const read = (named: Readonly<Record<string, string>>) =>
    Object.fromEntries(Object.entries(named).map(([key, variable]) => [key, readVariable(variable)]));
  if ("url" in settings) return { own: read(settings.headers), query: read(settings.query) };
  return { own: read(Object.fromEntries(settings.environment.map((name) => [name, name]))), query: {} };
}

/** The error has no cause: its message could contain the value. */
function refuseUnsendableHeaders(
  server: string,
  headers: Readonly<Record<string, string>>,
  values: Readonly<Record<string, string>>,
): void {
  for (const [header, variable] of Object.entries(headers)) {
    if (isHeader(header, values[header] ?? "")) continue;
    const fault = isHeader(header, "")
      ? `the value of ${variable} has characters that no header can hold`
      : "no header can have this name";
    throw new MgrpoError("config-invalid", `tools.mcp.${server}.headers.${header}: ${fault}`);
  }
}

function transportOf(settings: McpSettings, { own, query }: Values, calls: () => number): Transport {
  if ("command" in settings) {
    const { command, arguments: args } = settings;
    return new StdioClientTransport({
      command,
      args,
      env: { ...getDefaultEnvironment(), ...own },
      stderr: "pipe",
    });
  }
  const url = new URL(settings.url);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  const transport = new StreamableHTTPClientTransport(url, {
    requestInit: { headers: own },
    fetch: boundedFetch(MAX_RESPONSE_BYTES, calls),
  });
  // Cast: `sessionId` is declared without `| undefined`, which exactOptionalPropertyTypes rejects.
  return transport as Transport;
}

/** Lets all calls of `close` share the first one: if a server does not initialize, the SDK closes it without waiting for its process to end. */
function closeOnce(transport: Transport): () => Promise<void> {
  const close = transport.close.bind(transport);
  let closing: Promise<void> | undefined;
  transport.close = () => {
    closing ??= close();
    return closing;
  };
  return transport.close;
}

const addressOf = (settings: McpSettings): string =>
  "command" in settings ? settings.command : new URL(settings.url).origin;
