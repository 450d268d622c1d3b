/**
 * @file Checks a header before it is sent: if HTTP does not allow its value, the error of `fetch` repeats the value, which may be a secret.
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
