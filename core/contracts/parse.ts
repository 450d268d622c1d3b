/**
 * @file Parses values from outside: records, configs, files. An error is one line that names the value, the path and the fault. Also writes
 * canonical JSON.
 */
import type { z } from "zod";
import { type ErrorCode, MgrpoError, type UnknownName } from "../errors.ts";

/** How to fix the fault, by error code. */
const REMEDY: Partial<Record<ErrorCode, string>> = {
  "checkpoint-damaged": ": download the file again, or restore it from a backup",
  "tokenizer-damaged": ": download the file again, or restore it from a backup",
};

/** Maximum number of issues that a message lists. The error's evidence has all issues. */
const MAX_ISSUES = 5;

/** The parsed value. Throws an error with this code if the value does not match. `what`: names the value in the message. */
export function parse<S extends z.ZodType>(
  schema: S,
  value: unknown,
  what: string,
  code: ErrorCode = "record-damaged",
): z.infer<S> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const unknownNames: UnknownName[] = [];
  const issues = result.error.issues.map((issue) => {
    const path = issue.path.join(".");
    const known =
      issue.code === "unrecognized_keys" && code === "config-invalid" ? knownKeys(schema, issue, value) : [];
    if (issue.code === "unrecognized_keys") unknownNames.push(...issue.keys.map((unknown) => ({ unknown, known })));
    if (issue.code === "invalid_value") unknownNames.push(...unknownValue(issue, value));
    const fault = issueFault(issue);
    const message = known.length > 0 ? `${fault} (known keys: ${known.join(", ")})` : fault;
    return path ? `${path}: ${message}` : message;
  });
  const others = issues.length > MAX_ISSUES ? `; and ${issues.length - MAX_ISSUES} more` : "";
  const message = `${what}: ${issues.slice(0, MAX_ISSUES).join("; ")}${others}${REMEDY[code] ?? ""}`;
  throw new MgrpoError(code, message, { evidence: issues, unknownNames });
}

/** Zod's message for a value that fits no member of a union, unless the schema has its own. */
const NO_MEMBER = "Invalid input";

/**
 * What is wrong. Zod's own message does not say it for an invalid key of a record, nor for a value that fits no member of a union; the nested
 * issues do. The first two issues of each member are shown; members with the same issues are shown once. If some members find fault inside the
 * value, only their issues are shown.
 */
export function issueFault(issue: z.core.$ZodIssue): string {
  if (issue.code === "invalid_key") return issue.issues.map(issueFault).join("; ");
  if (issue.code !== "invalid_union" || issue.message !== NO_MEMBER || issue.errors.length === 0) return issue.message;
  const inside = issue.errors.filter((member) => member.some(({ path }) => path.length > 0));
  const members = inside.length > 0 ? inside : issue.errors;
  return [...new Set(members.map((member) => member.slice(0, 2).map(located).join(" and ")))].join(", or ");
}

function located(issue: z.core.$ZodIssue): string {
  const path = issue.path.join(".");
  return path ? `${path}: ${issueFault(issue)}` : issueFault(issue);
}

/** The keys that are possible at the path of the value. Leaves out the refused keys, which another member of a union may have. */
const knownKeys = (
  schema: z.core.$ZodType,
  { path, keys }: z.core.$ZodIssueUnrecognizedKeys,
  value: unknown,
): string[] => keysAt(schema, path, value).filter((key) => !keys.includes(key));

/** The text at the issue's path, which is none of the values that are possible there. */
function unknownValue({ path, values }: z.core.$ZodIssueInvalidValue, whole: unknown): UnknownName[] {
  // A value that an agent inherits is not in the input at its path.
  const given = path.reduce<unknown>(propertyOf, whole);
  return typeof given === "string" ? [{ unknown: given, known: values.map(String) }] : [];
}

/**
 * The keys of the object at the path, through defaults, nullables, transforms and short forms; of a union, those of its members, or of the
 * one that the value's discriminator selects.
 */
function keysAt(schema: z.core.$ZodType, path: readonly PropertyKey[], value: unknown): string[] {
  const {
    innerType,
    in: given,
    out,
    options = [],
    discriminator = "",
    shape,
    valueType,
    element,
  } = schema._zod.def as Partial<
    Pick<z.core.$ZodDefaultDef, "innerType"> &
      Pick<z.core.$ZodPipeDef, "in" | "out"> &
      Pick<z.core.$ZodUnionDef, "options"> &
      Pick<z.core.$ZodDiscriminatedUnionDef, "discriminator"> &
      Pick<z.core.$ZodObjectDef, "shape"> &
      Pick<z.core.$ZodRecordDef, "valueType"> &
      Pick<z.core.$ZodArrayDef, "element">
  >;
  const kind = propertyOf(value, discriminator) as z.core.util.Primitive;
  const selected = options.filter(({ _zod }) => _zod.propValues?.[discriminator]?.has(kind));
  const members = selected.length > 0 ? selected : options;
  const parts = [innerType, given, out, ...members].flatMap((part) => part ?? []);
  if (parts.length > 0) return [...new Set(parts.flatMap((part) => keysAt(part, path, value)))];
  const [key, ...rest] = path;
  if (key === undefined) return Object.keys(shape ?? {});
  const inner = shape?.[String(key)] ?? valueType ?? element;
  return inner ? keysAt(inner, rest, propertyOf(value, key)) : [];
}

const propertyOf = (value: unknown, key: PropertyKey): unknown =>
  (value as Record<PropertyKey, unknown> | null | undefined)?.[key];

/** `parse` of JSON text, in UTF-8 if it is bytes. */
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

/** For text that may be anything. Undefined: it is not JSON. The parser's error, which would quote the text, is dropped. */
export function jsonOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Canonical JSON of a record: keys are sorted, so that equal records have equal hashes. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(sorted(value));
}

/** Faster than a replacer, which JSON.stringify would call for every token of a trajectory. */
function sorted(value: unknown): unknown {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.some(isObject) ? value.map(sorted) : value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, inner]) => [key, sorted(inner)]));
}

const isObject = (value: unknown) => value !== null && typeof value === "object";
