/** @file Calls to the fake Tinker server, and how they can fail. */

/**
 * How a call fails. `lost`: the server handles the call, but its response is lost. The other faults keep the call from the
 * server. A response: the caller gets this one; `hang`: no response; `refused`: no connection. Undefined: the call does not fail.
 */
export type Fault = Response | "hang" | "refused" | "lost" | undefined;

export interface Call {
  readonly method: string;
  /** Below /api/v1. */
  readonly path: string;
  readonly body: Record<string, unknown>;
  readonly headers: Headers;
}

export const networkError = (code: string) =>
  new TypeError("fetch failed", { cause: Object.assign(new Error(code), { code }) });

/** Rejects when the signal aborts; without a signal, never settles. */
export function untilAborted(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}
