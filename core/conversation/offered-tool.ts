/** @file A tool that an app offers, as its agent sees it. Its description may come from an untrusted server. */
import type { OfferedTool } from "../contracts/app-chat.ts";
import { escapeSpecialTokens } from "./special-tokens.ts";

type Parameters = OfferedTool["function"]["parameters"];

export interface ToolOffer {
  readonly name: string;
  readonly description?: string | null | undefined;
  /** JSON Schema. */
  readonly parameters?: Parameters | null | undefined;
}

/** The characters that every API accepts, and dots. The name is not escaped, so it must not contain others. */
const NAME = /^[\w.-]{1,128}$/;

/** Undefined if the tool has no valid name. */
export function offeredTool({ name, description, parameters }: ToolOffer): OfferedTool | undefined {
  if (!NAME.test(name)) return undefined;
  const schema = escaped(parameters ?? { type: "object", properties: {} });
  return { type: "function", function: { name, description: escapedText(description ?? ""), parameters: schema } };
}

/** @param name the invalid one. */
export const nameFault = (name: string) =>
  `a tool's name has 1 to 128 characters, each a letter, a digit, '_', '-' or '.': not '${name.slice(0, 80)}'`;

/** Escapes special tokens in keys and in values. */
function escaped(value: Parameters): Parameters {
  if (typeof value === "string") return escapedText(value);
  if (Array.isArray(value)) return value.map(escaped);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [escapedText(key), escaped(inner)]));
}

/** Also removes the characters that stand for content while a template is rendered: first, since one may split a special token. */
const escapedText = (text: string) => escapeSpecialTokens(text.replace(/[\uE000\uE001]/g, ""));
