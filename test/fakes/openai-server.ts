/** @file A small server for OpenAI's chat completions, with the failures of real ones. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { json as readJson } from "node:stream/consumers";
import { onTestFinished } from "vitest";

/** The parts of a request that tests inspect. */
export interface ChatRequest {
  readonly path: string;
  readonly authorization: string | undefined;
  readonly body: {
    readonly model: string;
    readonly messages: readonly ChatRequestMessage[];
    readonly temperature?: number;
    readonly max_tokens?: number;
    readonly max_completion_tokens?: number;
    readonly response_format?: unknown;
    readonly tools?: readonly { readonly function: { readonly name: string } }[];
  };
}

export interface ChatRequestMessage {
  readonly role: string;
  readonly content: string | null;
  readonly tool_call_id?: string;
  readonly tool_calls?: readonly { readonly id: string; readonly function: { name: string; arguments: string } }[];
}

/** An HTTP response, or a fault. `hang`: no response. `hang-up`: closed without a response. `truncated`: closed within the body. */
export type Reply =
  | { readonly status: number; readonly body: string | Uint8Array; readonly headers?: Record<string, string> }
  | "hang"
  | "hang-up"
  | "truncated";

export interface OpenAiServer {
  /** Ends in `/v1`, as real ones do. */
  readonly url: string;
  readonly requests: ChatRequest[];
  close(): Promise<void>;
}

/** Lists no models. @param reply answers the n-th POST request, counted from 0. */
export async function startOpenAiServer(reply: (request: ChatRequest, n: number) => Reply): Promise<OpenAiServer> {
  const requests: ChatRequest[] = [];
  const server = createServer(async (incoming, response) => {
    if (incoming.method === "GET") return send(response, json(200, { object: "list", data: [] }));
    const request = await read(incoming);
    requests.push(request);
    send(response, reply(request, requests.length - 1));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requests,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** The same server, closed when the test ends. */
export async function serveOpenAi(...options: Parameters<typeof startOpenAiServer>): Promise<OpenAiServer> {
  const server = await startOpenAiServer(...options);
  onTestFinished(() => server.close());
  return server;
}

/** An assistant message in the form of vLLM, Ollama and OpenAI. */
export function replyWith(
  content: string | null,
  options: {
    readonly calls?: readonly { readonly name: string; readonly arguments: string }[];
    readonly reasoning?: string;
    readonly finish?: string;
    /** Without `total_tokens`: their sum. */
    readonly usage?: {
      readonly prompt_tokens: number;
      readonly completion_tokens: number;
      readonly total_tokens?: number;
    } | null;
  } = {},
): Reply {
  const { calls = [], reasoning, finish, usage = { prompt_tokens: 20, completion_tokens: 5 } } = options;
  const message = {
    role: "assistant",
    content,
    ...(reasoning !== undefined && { reasoning_content: reasoning }),
    ...(calls.length > 0 && {
      tool_calls: calls.map((call, i) => ({ id: `call_${i}`, type: "function", function: call })),
    }),
  };
  const finish_reason = finish ?? (calls.length > 0 ? "tool_calls" : "stop");
  return json(200, {
    id: "chatcmpl-1",
    object: "chat.completion",
    created: 1_700_000_000,
    model: "served",
    choices: [{ index: 0, message, finish_reason }],
    ...(usage && { usage: { total_tokens: usage.prompt_tokens + usage.completion_tokens, ...usage } }),
  });
}

/** An error in OpenAI's format. */
export function fails(status: number, message: string, code = "error", headers: Record<string, string> = {}): Reply {
  return json(status, { error: { message, type: code, param: null, code } }, headers);
}

export function json(status: number, body: unknown, headers: Record<string, string> = {}): Reply {
  return { status, body: JSON.stringify(body), headers };
}

async function read(incoming: IncomingMessage): Promise<ChatRequest> {
  const { url = "", headers } = incoming;
  return { path: url, authorization: headers.authorization, body: (await readJson(incoming)) as ChatRequest["body"] };
}

function send(response: ServerResponse, reply: Reply): void {
  if (reply === "hang") return;
  if (reply === "hang-up") {
    response.destroy();
    return;
  }
  if (reply === "truncated") {
    response.writeHead(200, { "content-type": "application/json", "content-length": "1000" });
    response.write('{"id":"chatcmpl-1","choices":[{"message":{"role":"assistant","con', () => response.destroy());
    return;
  }
  response.writeHead(reply.status, { "content-type": "application/json", ...reply.headers }).end(reply.body);
}
