/**
 * @file Parses a turn, in Qwen's format: free text around either calls
 *
 *     <tool_call>
 *     {"name": "search", "arguments": {"query": "..."}}
 *     </tool_call>
 *
 * (all calls of a turn run in parallel) or one final `<answer>...</answer>`. Thinking is skipped: all text up to the last `</think>` or, if
 * there is none, from the first `<think>` on.
 * Everything else is malformed, and `fault` says why. Eq 4 and 5 give it reward 0, so the parser never guesses or repairs.
 */
import type { z } from "zod";
import { ToolCall } from "../contracts/conversation.ts";
import { jsonOrUndefined } from "../contracts/parse.ts";
import { MgrpoError } from "../errors.ts";
import type { Toolbox } from "./toolbox.ts";

export type ParsedTurn =
  | { readonly kind: "calls"; readonly calls: readonly ToolCall[] }
  | { readonly kind: "answer"; readonly answer: string }
  | { readonly kind: "malformed"; readonly fault: string };

/** The only text after the thinking that the parser interprets; the text in between is free. */
export const TAGS = /<(?:\/?(?:tool_call|answer|tool_response)>|\|[^|<>\s]*\|>)/;
/** Tags that are stray in the text around a turn's calls. An app's agent may write `<answer>` there. */
export const STRAY_TAGS = /<(?:\/?(?:tool_call|tool_response)>|\|[^|<>\s]*\|>)/;
/** Tokens that only a template may write: an agent that writes them forges another's message. */
const FORGED = /^<(?:\||\/?tool_response>)/;

/** Throws `tool-backend` if a tool's schema throws. @param maxCalls limit on the calls of one turn. */
export function parseTurn(text: string, toolbox: Pick<Toolbox, "parameters">, maxCalls: number): ParsedTurn {
  const blocks = blocksOf(afterThinking(text));
  if ("fault" in blocks) return { kind: "malformed", fault: blocks.fault };
  const { calls: bodies, answers } = blocks;
  if (bodies.length > 0 && answers.length > 0) return malformed("both a tool call and an answer");
  if (answers.length > 1) return malformed(`${answers.length} answers`);
  if (bodies.length > maxCalls) return malformed(`${bodies.length} tool calls, at most ${maxCalls} are allowed`);
  const [answer] = answers;
  if (answer !== undefined) return answer === "" ? malformed("an empty answer") : { kind: "answer", answer };
  if (bodies.length === 0) return malformed("neither a tool call nor an answer");
  const calls: ToolCall[] = [];
  for (const [index, body] of bodies.entries()) {
    const call = parseCall(body, toolbox.parameters);
    if (typeof call === "string") return malformed(bodies.length > 1 ? `call ${index + 1}: ${call}` : call);
    calls.push(call);
  }
  return { kind: "calls", calls };
}

function malformed(fault: string): ParsedTurn {
  return { kind: "malformed", fault };
}

function afterThinking(text: string): string {
  const end = text.lastIndexOf("</think>");
  if (end >= 0) return text.slice(end + "</think>".length);
  const start = text.indexOf("<think>");
  return start >= 0 ? text.slice(0, start) : text;
}

/** Bodies of calls and answers. A call's body is opaque: its JSON strings may contain any tags but its closing tag and those of thinking. */
function blocksOf(text: string): { calls: string[]; answers: string[] } | { fault: string } {
  const calls: string[] = [];
  const answers: string[] = [];
  let rest = text;
  for (let tag = TAGS.exec(rest); tag; tag = TAGS.exec(rest)) {
    const [word] = tag;
    const after = rest.slice(tag.index + word.length);
    if (FORGED.test(word)) return { fault: `${word} inside a turn` };
    if (word.startsWith("</")) return { fault: `${word} without its opening tag` };
    const close = word.replace("<", "</");
    const end = after.indexOf(close);
    if (end < 0) return { fault: `${word} without ${close}` };
    const body = after.slice(0, end).trim();
    const inner = word === "<answer>" && TAGS.exec(body);
    if (inner) return { fault: `${inner[0]} inside an answer` };
    (word === "<answer>" ? answers : calls).push(body);
    rest = after.slice(end + close.length);
  }
  return { calls, answers };
}

/** The call, or its fault. */
function parseCall(body: string, parameters: ReadonlyMap<string, z.ZodType>): ToolCall | string {
  const value = jsonOrUndefined(body);
  if (value === undefined) return "the tool call is not JSON";
  const call = ToolCall.safeParse(value);
  if (!call.success) return `the tool call has the wrong form: ${issuesOf(call.error)}`;
  const schema = parameters.get(call.data.name);
  if (!schema) return `unknown tool '${call.data.name}' (available: ${[...parameters.keys()].join(", ") || "none"})`;
  const fault = argumentsFault(call.data, schema);
  return fault === undefined ? call.data : `arguments of '${call.data.name}': ${fault}`;
}

/** A refinement or transform of the schema that throws, or is asynchronous, is a fault of the recipe, not of the agent. */
function argumentsFault({ name, arguments: args }: ToolCall, schema: z.ZodType): string | undefined {
  try {
    const { error } = schema.safeParse(args);
    return error && issuesOf(error);
  } catch (cause) {
    const [line = ""] = String(cause).split("\n", 1);
    throw new MgrpoError(
      "tool-backend",
      `tool '${name}': its parameters threw ${line}: add a Zod issue instead of throwing, and use no asynchronous refinements or transforms`,
      { cause },
    );
  }
}

function issuesOf(error: z.ZodError): string {
  return error.issues
    .slice(0, 3)
    .map(({ path, message }) => (path.length > 0 ? `${path.join(".")}: ${message}` : message))
    .join("; ");
}
