/**
 * @file Words that have power in a conversation: role markers (`<|im_start|>`) and the protocol's tags (`<tool_call>`, `<answer>`, …).
 * Text that a policy did not just say itself (pages, tool responses, tasks, reports) is data. `neutralise` takes the power
 * out of it, visibly: a reader and a model still see what stood there, but no parser, template or tokenizer can take it for the real thing.
 * The second wall is the tokenizer, whose `encodeText` has no special tokens at all.
 */

import { prefixWithin, type TokenRoom } from "./token-room.ts";

/** Tags of the protocol and of Qwen's template. The opening bracket alone gives a tag its power, so it alone must go. */
const TAG = /<(?=\s*\/?\s*(?:tool_call|tool_response|tools|answer|think)\b)/giu;
const TAG_END = /(\[\s*\/?\s*(?:tool_call|tool_response|tools|answer|think)\s*)>/giu;
/** Every role marker of the common templates starts so. */
const ROLE = /<\|/g;
const ROLE_END = /(\[\|[^|<>\s]*\|)>/g;

/** Appended to a response that was cut. */
export const CUT_MARK = " [cut]";

/**
 * The text with every marker broken: `<|im_start|>` becomes `[|im_start|]`, `</answer>` becomes `[/answer]`. Idempotent.
 * Markers in disguise (full-width letters, accents, invisible characters), which a tokenizer's normaliser would turn into real
 * ones, are broken in the undisguised text, which then stands for the whole.
 */
export function escapeSpecialTokens(text: string): string {
  const broken = breakMarkers(text);
  if (/^[\x20-\x7e\n\t\r]*$/.test(broken)) return broken;
  const plain = undisguise(broken);
  const brokenPlain = breakMarkers(plain);
  return brokenPlain === plain ? broken : brokenPlain;
}

/** A tool response as the model sees it: at most `characters` characters (UTF-16 units) of it, and what fits into `room`, then a mark; neutralised. */
export function presentResponse(text: string, characters: number, room?: TokenRoom): string {
  const whole = escapeSpecialTokens(cut(text, characters));
  const short = cut(whole, characters);
  const kept = room ? prefixWithin(short, room) : short;
  const isCut = text.length > characters || kept.length < whole.length;
  return isCut ? kept + CUT_MARK : kept;
}

function breakMarkers(text: string): string {
  return text.replace(TAG, "[").replace(TAG_END, "$1]").replace(ROLE, "[|").replace(ROLE_END, "$1]");
}

/** What is left when compatibility forms, accents and invisible characters go: the most a tokenizer's normaliser does. */
function undisguise(text: string): string {
  return text.normalize("NFKD").replace(/(?![\n\t\r])[\p{M}\p{Cf}\p{Cc}\p{Default_Ignorable_Code_Point}]/gu, "");
}

/** A prefix that does not end in half a character. */
function cut(text: string, characters: number): string {
  if (text.length <= characters) return text;
  const prefix = text.slice(0, characters);
  return /[\uD800-\uDBFF]$/.test(prefix) ? prefix.slice(0, -1) : prefix;
}
