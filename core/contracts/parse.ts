/** @file Parsing at the edge: one line that names the record, the path and the fault. */
import type { z } from "zod";
import { type ErrorCode, MgrpoError } from "../errors.ts";
import { didYouMean } from "./nearest.ts";

/** What helps wherever the file came from; callers say the rest. */
const REMEDY: Partial<Record<ErrorCode, string>> = {
  "checkpoint-damaged": ": restore the file from its origin",
  "tokenizer-damaged": ": restore the file from its origin",
};

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
    const keys = issue.code === "unrecognized_keys" && code === "config-invalid" ? issue.keys : [];
    const message = `${issue.message}${keys.length > 0 ? knownKeys(keys, keysAt(schema, issue.path)) : ""}`;
    return path ? `${path}: ${message}` : message;
  });
  const remedy = REMEDY[code] ?? "";
  throw new MgrpoError(code, `${what}: ${issues.slice(0, 5).join("; ")}${remedy}`, { evidence: issues });
}

/** `: there are steps, seed; did you mean 'steps'?`, after a message about unknown keys. */
function knownKeys(unknown: readonly string[], known: readonly string[]): string {
  if (known.length === 0) return "";
  const nearest = unknown.map((key) => didYouMean(key, known)).find((hint) => hint !== "") ?? "";
  return `: there are ${known.join(", ")}${nearest}`;
}

/** The keys of the object that the path leads to, through defaults and nullables; none where a union or a text is on the way. */
function keysAt(schema: z.core.$ZodType, path: readonly PropertyKey[]): string[] {
  const { innerType, shape, valueType, element } = schema._zod.def as Partial<
    Pick<z.core.$ZodDefaultDef, "innerType"> &
      Pick<z.core.$ZodObjectDef, "shape"> &
      Pick<z.core.$ZodRecordDef, "valueType"> &
      Pick<z.core.$ZodArrayDef, "element">
  >;
  if (innerType) return keysAt(innerType, path);
  const [key, ...rest] = path;
  if (key === undefined) return Object.keys(shape ?? {});
  const inner = shape?.[String(key)] ?? valueType ?? element;
  return inner ? keysAt(inner, rest) : [];
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
    throw new MgrpoError(code, `${what}: not JSON${REMEDY[code] ?? ""}`, { cause });
  }
  return parse(schema, value, what, code);
}

/** Canonical bytes of a record, which holds JSON values only: keys sorted, so that equal records have equal hashes. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(sorted(value));
}

/** Not by a replacer, which JSON.stringify would ask about every token of a trajectory. */
function sorted(value: unknown): unknown {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.some(isObject) ? value.map(sorted) : value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, inner]) => [key, sorted(inner)]));
}

const isObject = (value: unknown) => value !== null && typeof value === "object";
