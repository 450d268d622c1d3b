/**
 * @file Matches the patterns of an MCP server's JSON Schemas. The server wrote the pattern and the model wrote the text, so no pattern may
 * backtrack: `^(a+)+$` would block this process for seconds. RE2 takes linear time. A text passes where RE2 cannot
 * decide as JavaScript would, since the server checks the arguments itself: if RE2 does not support the pattern
 * (lookahead, backreferences), if the pattern is too large, or if it contains `\s` or `\S` and the text contains
 * whitespace that RE2's `\s` does not match.
 */
import { RE2JS } from "re2js";

/** In RE2 instructions. Matching time is at most proportional to this times the length of the text. */
const MAX_PROGRAM = 1000;
const WHITESPACE_CLASS = /\\s/i;
/** What `\s` matches in JavaScript and not in RE2, such as a no-break space. */
const OTHER_WHITESPACE = /[^\S\t\n\f\r ]/;
/** RE2JS mistakes a named backreference for ordinary text. */
const NAMED_BACKREFERENCE = /\\k</;

/** For ajv, which identifies a pattern by its `toString`. */
export interface Pattern {
  test(text: string): boolean;
  toString(): string;
}

export function linearPattern(source: string): Pattern {
  const compiled = compile(source);
  const isUndecided = (text: string) => WHITESPACE_CLASS.test(source) && OTHER_WHITESPACE.test(text);
  return {
    test: (text) => compiled === undefined || compiled.test(text) || isUndecided(text),
    toString: () => `re2:${source}`,
  };
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
