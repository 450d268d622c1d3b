/** @file Tools that a request offers, as an agent sees them. Their descriptions may come from an untrusted server. */
import type { OfferedTool } from "../../../core/contracts/app-chat.ts";
import { escapeSpecialTokens } from "../../../core/conversation/special-tokens.ts";
import { invalid, unsupported } from "./errors.ts";

type Parameters = OfferedTool["function"]["parameters"];

export interface ToolOffer {
  readonly name: string;
  readonly description?: string | null | undefined;
  /** JSON Schema. */
  readonly parameters?: Parameters | null | undefined;
}

/** The characters that every API accepts, and dots. The name is not escaped, so it must not contain others. */
const NAME = /^[\w.-]{1,128}$/;

/** @param where the parameter, for errors. */
export function offeredTool({ name, description, parameters }: ToolOffer, where: string): OfferedTool {
  if (!NAME.test(name)) {
    throw invalid(where, `a tool's name has at most 128 letters, digits, '_', '-' and '.'; not '${name.slice(0, 80)}'`);
  }
  const schema = escaped(parameters ?? { type: "object", properties: {} });
  return { type: "function", function: { name, description: escapedText(description ?? ""), parameters: schema } };
}

/** Refuses OpenAI's settings that force or limit calls. */
export function refuseForcedCalls(choice: unknown, parallel: boolean | null | undefined): void {
  if (choice != null && choice !== "auto" && choice !== "none") {
    throw unsupported("tool_choice", 'tool_choice is "auto" or "none": a forced call would not be the policy\'s own');
  }
  if (parallel === false) {
    throw unsupported("parallel_tool_calls", "how many calls a turn makes is the policy's choice: leave it out");
  }
}

/** Escapes special tokens in keys and in values. */
function escaped(value: Parameters): Parameters {
  if (typeof value === "string") return escapedText(value);
  if (Array.isArray(value)) return value.map(escaped);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [escapedText(key), escaped(inner)]));
}

/** Also removes the characters that stand for content while a template is rendered. */
const escapedText = (text: string) => escapeSpecialTokens(text).replace(/[\uE000\uE001]/g, "");
