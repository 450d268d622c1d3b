/** @file The pause that an HTTP response asks for. */

/**
 * In seconds; 0 if the response asks for none. `retry-after-ms`, which some servers send, is preferred to Retry-After, which has a number of
 * seconds or a date. `now` is in milliseconds.
 */
export function retryAfterSeconds(header: (name: string) => string | null | undefined, now: number): number {
  const milliseconds = Number(header("retry-after-ms"));
  if (milliseconds > 0 && Number.isFinite(milliseconds)) return milliseconds / 1000;
  const retryAfter = header("retry-after") ?? "0";
  const seconds = Number(retryAfter);
  if (Number.isFinite(seconds)) return Math.max(0, seconds);
  return Math.max(0, (Date.parse(retryAfter) - now) / 1000 || 0);
}
