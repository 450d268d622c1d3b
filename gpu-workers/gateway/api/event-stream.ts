/** @file Server-sent events: a reply as a stream that keeps the connection alive while the agent samples. */

/** An error within this time has its own HTTP status, as clients expect; a later one is an event of the stream. */
const STATUS_MILLISECONDS = 5_000;
const PING_MILLISECONDS = 10_000;

const HEADERS = { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" };

export interface ServerEvent {
  /** Absent: the API's events have no names. */
  readonly name?: string;
  readonly data: string;
}

/**
 * @param events the reply's events, once the turn is sampled. Rejects as `events` does if that fails within STATUS_MILLISECONDS.
 * @param errorEvent the event for a later error.
 */
export async function eventStream(
  events: Promise<readonly ServerEvent[]>,
  errorEvent: (error: unknown) => ServerEvent,
): Promise<Response> {
  let timer: NodeJS.Timeout | undefined;
  const slow = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, STATUS_MILLISECONDS);
  });
  await Promise.race([events, slow]).finally(() => clearTimeout(timer));
  return new Response(streamOf(events.catch((error: unknown) => [errorEvent(error)])), { headers: HEADERS });
}

function streamOf(events: Promise<readonly ServerEvent[]>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let ping: NodeJS.Timeout | undefined;
  let isCanceled = false;
  return new ReadableStream({
    async start(controller) {
      const send = (text: string) => controller.enqueue(encoder.encode(text));
      ping = setInterval(() => send(": waiting\n\n"), PING_MILLISECONDS);
      const sent = await events;
      clearInterval(ping);
      if (isCanceled) return;
      for (const { name, data } of sent) send(`${name ? `event: ${name}\n` : ""}data: ${data}\n\n`);
      controller.close();
    },
    cancel() {
      isCanceled = true;
      clearInterval(ping);
    },
  });
}
