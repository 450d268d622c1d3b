/** @file Parsing at the edge: one line that names the record, the path and the fault. */
import type { z } from "zod";
import { type ErrorCode, MgrpoError } from "../errors.ts";

export function parse<S extends z.ZodType>(
  schema: S,
  value: unknown,
  what: string,
  code: ErrorCode = "record-damaged",
): z.infer<S> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const issues = result.error.issues.map((issue) => {
    const path = issue.path.join(".");
    return path ? `${path}: ${issue.message}` : issue.message;
  });
  throw new MgrpoError(code, `${what}: ${issues.slice(0, 5).join("; ")}`, { evidence: issues });
}

export function parseJson<S extends z.ZodType>(
  schema: S,
  bytes: Uint8Array | string,
  what: string,
  code: ErrorCode = "record-damaged",
): z.infer<S> {
  const text = typeof bytes === "string" ? bytes : new TextDecoder().decode(bytes);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new MgrpoError(code, `${what}: not JSON`, { cause });
  }
  return parse(schema, value, what, code);
}

/** Canonical bytes of a record: keys sorted, so that equal records have equal hashes. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    inner !== null && typeof inner === "object" && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}
