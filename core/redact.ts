/**
 * @file Removes secrets from what backends send. Some backends repeat what they were sent: in an error, a response, or a tool's description.
 * The tools of a run share one redactor, which knows the value of every environment variable that their settings name; a tracker's knows the
 * headers that it sends; that of a model's API or of a Tinker server knows the key. A text is redacted before it is cut, stored, shown to an
 * agent, or thrown.
 */
export type Redact = (text: string) => string;

/** In characters. Shorter values are not redacted: they are settings (`1`, `debug`) that also occur in ordinary text. */
const MIN_SECRET = 8;
/** A server may repeat a header's value without its scheme. */
const SCHEME = /^(?:bearer|basic|token|api-?key)\s+/i;

/** @param values of environment variables or headers; forms shorter than MIN_SECRET characters are not redacted. */
export function redactor(values: readonly string[]): Redact {
  const secrets = [...new Set(values.flatMap(formsOf))]
    .filter((secret) => secret.length >= MIN_SECRET)
    .sort((a, b) => b.length - a.length);
  return (text) => secrets.reduce((rest, secret) => rest.replaceAll(secret, "***"), text);
}

/** The value as it is, without its scheme, and as JSON and URLs write it. In JSON, PHP escapes slashes and .NET escapes plus signs: base64 has both. */
function formsOf(value: string): string[] {
  return [value.trim(), value.trim().replace(SCHEME, "")].flatMap((form) => {
    const json = JSON.stringify(form).slice(1, -1);
    const escaped = [json.replaceAll("/", "\\/"), json.replaceAll("+", "\\u002B")];
    // A path escapes fewer characters than a query.
    const inQuery = new URLSearchParams([["", form]]).toString().slice(1);
    return [form, json, ...escaped, encodeURIComponent(form), inQuery];
  });
}

/** Redacts all strings of a JSON value, keys included. Anything that is not JSON stays as it is. */
export function redactJson<T>(redact: Redact, value: T): T {
  return redactValue(redact, value) as T;
}

/** @param above the objects and arrays that contain the value. */
function redactValue(redact: Redact, value: unknown, above: readonly unknown[] = []): unknown {
  if (typeof value === "string") return redact(value);
  if (above.includes(value)) return "[circular]";
  const inner = (item: unknown) => redactValue(redact, item, [...above, value]);
  if (Array.isArray(value)) return value.map(inner);
  if (value === null || typeof value !== "object" || Object.getPrototypeOf(value) !== Object.prototype) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [redact(key), inner(item)]));
}

/**
 * Redacts an error, its causes and the errors of an `AggregateError` in place, so that they keep their classes and codes. If the value of a
 * property contains itself, "[circular]" takes the place of the inner one. Returns the error.
 */
export function redactError(redact: Redact, error: unknown): unknown {
  // A set: causes may form a cycle.
  const faults = new Set([error]);
  for (const fault of faults) {
    if (!(fault instanceof Error)) continue;
    faults.add(fault.cause);
    if (fault instanceof AggregateError) for (const inner of fault.errors) faults.add(inner);
    for (const key of Object.getOwnPropertyNames(fault)) {
      const value: unknown = Reflect.get(fault, key);
      // Uses defineProperty: some libraries declare a message without a setter.
      if (value !== undefined) Reflect.defineProperty(fault, key, { value: redactValue(redact, value) });
    }
  }
  return error;
}
