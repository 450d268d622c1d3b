/** @file Whether a request arrived as a whole, and whether its response reached the client. */
import type { HttpBindings } from "@hono/node-server";
import type { Context } from "hono";

/**
 * Resolves to true when the whole response has been handed to the client's connection, to false when the connection closed first.
 * Node.js also emits `finish` after the connection was lost, so the socket must still be open.
 */
export function deliveryOf(context: Context): Promise<boolean> {
  const { incoming, outgoing } = (context.env ?? {}) as Partial<HttpBindings>;
  // Without a socket, within one process, the caller has the response once it is returned.
  if (!incoming || !outgoing) return Promise.resolve(true);
  const { socket } = incoming;
  return new Promise((resolve) => {
    outgoing.prependOnceListener("finish", () => resolve(!socket.destroyed));
    outgoing.once("close", () => resolve(false));
  });
}

/** Whether the connection closed before the whole body had arrived. */
export function isCutOff(context: Context): boolean {
  const { incoming } = (context.env ?? {}) as Partial<HttpBindings>;
  return incoming?.destroyed === true && !incoming.complete;
}
