/** @file JSON inside a trace. Error messages quote none of it, because traces hold what users wrote. */
import type * as z from "zod";
import { jsonOrUndefined } from "../../core/contracts/parse.ts";
import { MgrpoError } from "../../core/errors.ts";

export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue };
export type JsonObject = Readonly<Record<string, JsonValue>>;

/** Why one conversation cannot be imported. The message does not quote it, so that equal reasons can be counted. */
export class UnusableTraceError extends Error {}

export const jsonIn = (text: string) => jsonOrUndefined(text) as JsonValue | undefined;

/** Marks a string that was an integer of 64 bits, such as an id, which a number would round. In Unicode's private use area. */
const MARK = "\uE002";
const MARKED_INTEGER = new RegExp(`^${MARK}-?\\d+$`);
const MARKED = new RegExp(`"${MARK}(-?\\d+)"`, "g");
/** An escape, a quotation mark, or a number. Whole strings are not matched: a long one would exceed the stack of the regular expression. */
const PIECE = /\\.|"|-?\d[\d.eE+-]*/g;

/** Integers that a number would round are marked strings, which `exactText` writes as integers again. Undefined: the text is not JSON. */
export function exactJsonIn(text: string): JsonValue | undefined {
  const value = jsonIn(text);
  if (value === undefined || !/\d{16}/.test(text)) return value;
  let isInString = false;
  const marked = text.replace(PIECE, (piece) => {
    if (piece === '"') isInString = !isInString;
    return !isInString && isRounded(piece) ? `"${MARK}${piece}"` : piece;
  });
  return JSON.parse(marked);
}

const isRounded = (piece: string) => /^-?\d+$/.test(piece) && !Number.isSafeInteger(Number(piece));

/** A number that is written as text. An integer that it would round is a marked string. */
export const exactNumber = (text: string): JsonValue => (isRounded(text) ? MARK + text : Number(text));

export const exactText = (value: JsonValue): string => JSON.stringify(value).replace(MARKED, "$1");

/** A string that may be a marked integer. */
export const withoutMark = (text: string): string => (MARKED_INTEGER.test(text) ? text.slice(MARK.length) : text);

/** A line of a file that cannot be read ends the command. */
export const unreadableTrace = (where: string, fault: string) =>
  new MgrpoError("demonstrations-invalid", `${where}: ${fault}`);

/** An attribute that is JSON: a string, a list of strings, or already structured. */
export function parseAttribute<S extends z.ZodType>(schema: S, value: JsonValue, name: string): z.infer<S> {
  const json = structured(value);
  if (json === undefined)
    throw new UnusableTraceError(`${name} is not JSON: was it truncated by an attribute length limit?`);
  const result = schema.safeParse(json);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw new UnusableTraceError(`${name} is malformed${issue?.path.length ? ` at ${issue.path.join(".")}` : ""}`);
}

/** Undefined: a string that is not JSON, such as one that was truncated by an attribute length limit. */
function structured(value: JsonValue): JsonValue | undefined {
  if (typeof value === "string") return exactJsonIn(value);
  if (!Array.isArray(value)) return value;
  return value.map((one: JsonValue) => (typeof one === "string" ? (exactJsonIn(one) ?? one) : one));
}

/**
 * The list that is flattened into attributes such as `llm.input_messages.0.message.role`, where `prefix` is `llm.input_messages`. Undefined if
 * there is none. Throws `UnusableTraceError` if it lacks an entry: recorders keep a limited number of attributes, and some drop the oldest, so the start of
 * a conversation is lost first.
 */
export function listAt(attributes: JsonObject, prefix: string): readonly JsonValue[] | undefined {
  const start = `${prefix}.`;
  const entries = Object.entries(attributes)
    .filter(([key]) => key.startsWith(start))
    .map(([key, value]): [string[], JsonValue] => [key.slice(start.length).split("."), value]);
  const nested = entries.length > 0 ? nest(entries) : undefined;
  if (!Array.isArray(nested)) return undefined;
  const indices = new Set(entries.map(([[index]]) => Number(index)));
  if (Math.max(...indices) === indices.size - 1) return nested;
  throw new UnusableTraceError(`${prefix} lacks an entry: did a limit on the number of attributes drop it?`);
}

function nest(entries: readonly (readonly [readonly string[], JsonValue])[]): JsonValue {
  const groups = new Map<string, [readonly string[], JsonValue][]>();
  for (const [[head, ...rest], value] of entries) {
    if (head === undefined) return value;
    const group = groups.get(head) ?? [];
    group.push([rest, value]);
    groups.set(head, group);
  }
  const values = [...groups].map(([head, group]): [string, JsonValue] => [head, nest(group)]);
  if (!values.every(([head]) => /^\d+$/.test(head))) return Object.fromEntries(values);
  return values.sort(([a], [b]) => Number(a) - Number(b)).map(([, value]) => value);
}
