/**
 * @file Matches the patterns of an MCP server's JSON Schemas. The server wrote the pattern and the model wrote the text, so no pattern may
 * backtrack: `^(a+)+$` would block this process for seconds. RE2 takes linear time. A pattern that RE2 does not support (lookahead,
 * backreferences) or that is too large is not matched here: the server checks the arguments itself.
 */
import { RE2JS } from "re2js";

/** In RE2 instructions. Matching time is proportional to this times the length of the text. */
const MAX_PROGRAM = 1000;
/** RE2JS mistakes a named backreference for ordinary text. */
const NAMED_BACKREFERENCE = /\\k</;

/** For ajv, which identifies a pattern by its `toString`. */
export interface Pattern {
  test(text: string): boolean;
  toString(): string;
}

export function linearPattern(source: string): Pattern {
  const compiled = compile(source);
  return { test: (text) => compiled?.test(text) ?? true, toString: () => `re2:${source}` };
}

function compile(source: string): RE2JS | undefined {
  if (NAMED_BACKREFERENCE.test(source)) return undefined;
  try {
    const compiled = RE2JS.compile(RE2JS.translateRegExp(source));
    return compiled.programSize() > MAX_PROGRAM ? undefined : compiled;
  } catch {
    return undefined;
  }
}
