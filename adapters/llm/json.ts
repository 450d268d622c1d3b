/** @file JSON that a server or a model wrote. */

/** The value. Undefined: the text is not JSON. */
export function jsonOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
