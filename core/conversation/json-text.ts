/** @file JSON as text: numbers keep their digits, which a JavaScript number may not hold. */
import { jsonOrUndefined } from "../contracts/parse.ts";

const STRING = /"(?:[^"\\]|\\.)*"/;
/** A string, whitespace, or a comma or colon. */
const PIECE = new RegExp(`(${STRING.source})|\\s+|([,:])`, "g");
/** A string, a punctuation mark, or a number or literal. */
const TOKEN = new RegExp(`${STRING.source}|[{}[\\],:]|[^\\s"{}[\\],:]+`, "g");

/**
 * Valid JSON with `gap` after each comma and colon, no other whitespace, and only the escapes that JSON requires. Keys keep their order.
 * Text that is not JSON is unchanged.
 */
export function reformat(text: string, gap: "" | " "): string {
  if (!isJson(text)) return text;
  return text.replace(PIECE, (_piece, string: string | undefined, mark: string | undefined) => {
    if (string !== undefined) return JSON.stringify(JSON.parse(string));
    return mark === undefined ? "" : mark + gap;
  });
}

export const isJson = (text: string): boolean => jsonOrUndefined(text) !== undefined;

/**
 * The value of a member of a valid JSON object, verbatim. Undefined: there is none. Of repeated keys, the last counts, as in JSON.parse.
 */
export function memberText(object: string, name: string): string | undefined {
  let found: string | undefined;
  let key = "";
  /** Where the current member's value starts; 0: its key is expected. */
  let start = 0;
  let depth = 0;
  for (const { 0: token, index } of object.matchAll(TOKEN)) {
    if (depth === 1) {
      if (token === "," || token === "}") {
        if (start > 0 && key === name) found = object.slice(start, index).trim();
        start = 0;
      } else if (token === ":") start = index + 1;
      else if (start === 0) key = JSON.parse(token);
    }
    if (token === "{" || token === "[") depth += 1;
    if (token === "}" || token === "]") depth -= 1;
  }
  return found;
}
