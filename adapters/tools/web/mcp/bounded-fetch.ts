/**
 * @file fetch for MCP over HTTP, with a limit on every response. Bytes are counted after decompression, as they arrive. A response that is too
 * large is cut off, and a JSON-RPC response that says so takes its place, so that only this request is affected and no call is retried.
 *
 *     POST                       one response: JSON, or a stream of events   at most `maxBytes`
 *     GET with last-event-id     the rest of an interrupted stream           at most `maxBytes`
 *     GET                        an endless stream of notifications          not opened: nobody reads them
 *
 * A GET does not name the request whose stream it resumes, so no response can be addressed to that request, which
 * times out.
 *
 * Only the caller's own time limit ends a request: `fetch` by itself gives up after 300 seconds of silence.
 */
import type { FetchLike } from "@modelcontextprotocol/sdk/shared/transport.js";
import { Agent, fetch, type RequestInit } from "undici";
import * as z from "zod";

const JsonRpcRequest = z.object({ id: z.union([z.string(), z.number()]), method: z.string() });

export function boundedFetch(maxBytes: number): FetchLike {
  const dispatcher = new Agent({ headersTimeout: 0, bodyTimeout: 0 });
  return async (url, init) => {
    // 405: the status of a server that offers no such stream.
    if (init?.method === "GET" && !new Headers(init.headers).has("last-event-id"))
      return new Response(null, { status: 405 });
    // Cast: undici has types of its own for the parts of a request.
    const { body, status, statusText, headers: received } = await fetch(url, { ...init, dispatcher } as RequestInit);
    const headers = [...received];
    if (!body) return new Response(null, { status, statusText, headers });
    const isStream = /^text\/event-stream\b/i.test(received.get("content-type") ?? "");
    const limit = (isStream ? limitEvents : limitWhole)(maxBytes, tooLargeResponse(init?.body, maxBytes));
    return new Response(body.pipeThrough(limit), { status, statusText, headers });
  };
}

/** Passes chunks on as they arrive. */
function limitEvents(maxBytes: number, tooLarge: string): TransformStream<Uint8Array, Uint8Array> {
  let size = 0;
  return new TransformStream({
    transform(chunk, controller) {
      size += chunk.length;
      if (size <= maxBytes) return controller.enqueue(chunk);
      // The empty line ends the event that was cut off.
      controller.enqueue(Buffer.from(`\n\ndata: ${tooLarge}\n\n`));
      controller.terminate();
    },
  });
}

/** Holds the body back until it is complete: bytes that were passed on could not be replaced. */
function limitWhole(maxBytes: number, tooLarge: string): TransformStream<Uint8Array, Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  return new TransformStream({
    transform(chunk, controller) {
      size += chunk.length;
      if (size <= maxBytes) return void chunks.push(chunk);
      controller.enqueue(Buffer.from(tooLarge));
      controller.terminate();
    },
    flush: (controller) => controller.enqueue(Buffer.concat(chunks)),
  });
}

/** For a tool call, a result whose text the agent reads; for any other request, a JSON-RPC error. */
function tooLargeResponse(body: unknown, maxBytes: number): string {
  const text = `the server's response is larger than ${maxBytes} bytes`;
  const { data: request } = JsonRpcRequest.safeParse(typeof body === "string" ? JSON.parse(body) : undefined);
  const isCall = request?.method === "tools/call";
  const outcome = isCall
    ? { result: { content: [{ type: "text", text }], isError: true } }
    : { error: { code: -32000, message: text } };
  return JSON.stringify({ jsonrpc: "2.0", id: request?.id ?? null, ...outcome });
}
