/**
 * @file fetch for MCP over HTTP, with a limit on every response. Bytes are counted after decompression, as they arrive. A response that is too
 * large is cut off, and a JSON-RPC response that says so takes its place, so that only this request is affected and no call is retried.
 *
 *     POST of `initialize`       one response                                at most MAX_INITIALIZE_BYTES
 *     POST                       one response: JSON, or a stream of events   at most `maxBytes`
 *     POST of a reply            to a request of the server                  at most MAX_REPLIES at once
 *     GET with last-event-id     the rest of an interrupted stream           at most `maxBytes`; never more at once than calls in flight
 *     GET                        an endless stream of notifications          not opened: nobody reads them
 *
 * A response may hold 100,000 `ping` requests, and the SDK replies to each at once, each reply on a connection of its own. It also resumes a
 * stream whose call has ended with an error, again and again if the server keeps breaking it off. Replies and streams beyond the limits are dropped.
 *
 * A GET does not name the request whose stream it resumes, so no response can be addressed to that request, which
 * times out.
 *
 * The time limits of `fetch`, 300 seconds without a response or without data, are off: only the caller's own limit applies.
 */
import { setTimeout as pause } from "node:timers/promises";
import type { FetchLike } from "@modelcontextprotocol/sdk/shared/transport.js";
import { Agent, fetch, type RequestInit } from "undici";
import * as z from "zod";

/** A reply has no method, a notification no id. */
const JsonRpcMessage = z.object({ id: z.union([z.string(), z.number()]).optional(), method: z.string().optional() });
type JsonRpcMessage = z.infer<typeof JsonRpcMessage>;

/** The SDK checks this response itself, and takes ten microseconds and a kilobyte for each faulty item. */
const MAX_INITIALIZE_BYTES = 200_000;
const MAX_REPLIES = 10;
/** Before a stream is resumed. The SDK waits as long as the server says, which may be 0. */
const RESUME_MILLISECONDS = 500;

/** @param callsInFlight of the connection: calls that wait for a response. */
export function boundedFetch(maxBytes: number, callsInFlight: () => number): FetchLike {
  const limited = limitedFetch(maxBytes);
  let replies = 0;
  let resumed = 0;

  async function reply(...[url, init]: Parameters<FetchLike>): Promise<Response> {
    if (replies >= MAX_REPLIES) return new Response(null, { status: 202 });
    replies += 1;
    try {
      return await limited(url, init);
    } finally {
      replies -= 1;
    }
  }

  async function resume(...[url, init]: Parameters<FetchLike>): Promise<Response> {
    if (resumed >= callsInFlight()) return noStream();
    resumed += 1;
    const end = () => {
      resumed -= 1;
    };
    try {
      await pause(RESUME_MILLISECONDS, undefined, init?.signal ? { signal: init.signal } : {});
      return whenRead(await limited(url, init), end);
    } catch (error) {
      end();
      throw error;
    }
  }

  return async (url, init) => {
    if (init?.method === "GET") return new Headers(init.headers).has("last-event-id") ? resume(url, init) : noStream();
    const message = messageOf(init?.body);
    return message && message.method === undefined ? reply(url, init) : limited(url, init);
  };
}

/** The status of a server that offers no such stream. */
const noStream = () => new Response(null, { status: 405 });

/** The response, which calls `end` once its body has been read, has failed or is canceled. */
function whenRead({ body, status, statusText, headers }: Response, end: () => void): Response {
  if (!body) {
    end();
    return new Response(null, { status, statusText, headers });
  }
  const reader = body.getReader();
  const counted = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await reader.read().catch((error: unknown) => {
          end();
          throw error;
        });
        if (!done) return controller.enqueue(value);
        end();
        controller.close();
      },
      cancel(reason) {
        end();
        return reader.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
  return new Response(counted, { status, statusText, headers });
}

/** Undefined: there is no body, or it is not one JSON-RPC message. */
const messageOf = (body: unknown): JsonRpcMessage | undefined =>
  JsonRpcMessage.safeParse(typeof body === "string" ? JSON.parse(body) : undefined).data;

function limitedFetch(maxBytes: number): FetchLike {
  const dispatcher = new Agent({ headersTimeout: 0, bodyTimeout: 0 });
  return async (url, init) => {
    // Cast: undici has types of its own for the parts of a request.
    const { body, status, statusText, headers: received } = await fetch(url, { ...init, dispatcher } as RequestInit);
    const headers = [...received];
    if (!body) return new Response(null, { status, statusText, headers });
    const isStream = /^text\/event-stream\b/i.test(received.get("content-type") ?? "");
    const isInitialize = messageOf(init?.body)?.method === "initialize";
    const bytes = isInitialize ? Math.min(MAX_INITIALIZE_BYTES, maxBytes) : maxBytes;
    const limit = (isStream ? limitEvents : limitWhole)(bytes, tooLargeResponse(init?.body, bytes));
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
  const request = messageOf(body);
  const isCall = request?.method === "tools/call";
  const outcome = isCall
    ? { result: { content: [{ type: "text", text }], isError: true } }
    : { error: { code: -32000, message: text } };
  return JSON.stringify({ jsonrpc: "2.0", id: request?.id ?? null, ...outcome });
}
