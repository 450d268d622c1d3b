/**
 * @file Checks a header before it is sent: if HTTP does not allow its value, the error of `fetch` repeats the value, which may be a secret. Also
 * reads Retry-After.
 */

/** Whether HTTP allows a header with this name and value. */
export function isHeader(name: string, value: string): boolean {
  try {
    new Headers().append(name, value);
    return true;
  } catch {
    return false;
  }
}

/** The pause that a Retry-After header asks for, in seconds. The header has a number of seconds or a date; 0 if it is absent or has neither. */
export function retryAfterSeconds(retryAfter: string | null | undefined): number {
  const seconds = Number(retryAfter ?? 0);
  if (Number.isFinite(seconds)) return Math.max(0, seconds);
  return Math.max(0, (Date.parse(retryAfter ?? "") - Date.now()) / 1000 || 0);
}
