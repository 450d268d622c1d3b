/** @file Imports one document, and checks that the report accounts for every model call in it. */
import { expect } from "vitest";
import { importTraces, type TraceImportOptions } from "../../../sft/traces/import.ts";
import type { JsonValue } from "../../../sft/traces/json.ts";
import { chat, file, span, spans, textMessage } from "../../fixtures/traces.ts";

export const OPTIONS: TraceImportOptions = { conditions: [], system: true };
export const QUESTION = textMessage("user", "Where?");
export const ANSWER = textMessage("assistant", "Here.");

export interface Line {
  readonly agent?: string;
  readonly messages: readonly {
    readonly role: string;
    readonly content: string | null;
    readonly [key: string]: unknown;
  }[];
}

export function imported(document: unknown, options: Partial<TraceImportOptions> = {}) {
  const { lines, report } = importTraces([file(document)], { ...OPTIONS, ...options });
  const skipped = Object.fromEntries([...report.skipped].map(([reason, { count }]) => [reason, count]));
  const skips = Object.values(skipped).reduce((sum, count) => sum + count, 0);
  // Nothing is dropped silently.
  expect(lines.length + report.contained + skips).toBe(report.found);
  return { lines: lines as Line[], report, skipped };
}

export const chatTrace = (
  input: readonly JsonValue[],
  output: readonly JsonValue[],
  rest: Record<string, JsonValue> = {},
) => spans(span({ attributes: chat(input, output, rest) }));
export const roles = ({ messages }: Line) => messages.map(({ role }) => role).join(" ");
