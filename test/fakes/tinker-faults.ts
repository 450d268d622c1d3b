/** @file Calls to the fake Tinker server, and the ways they can fail. */

/**
 * The fate of a call: a proxy's answer in place of the server's; `hang`: no answer; `refused`: no connection; `lost`: the call is done, but
 * its answer is lost. Undefined: the server answers.
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

export function untilAborted(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}
