/** @file A model call as a span records it: its input messages, its output messages and its tools. */
import { type RawMessage, roleOf } from "./message.ts";
import type { ToolDefinition } from "./tools.ts";

export interface RecordedCall {
  readonly input: readonly RawMessage[];
  /** The messages of each alternative that the model returned. Usually there is one, of one message. */
  readonly choices: readonly (readonly RawMessage[])[];
  readonly tools: readonly ToolDefinition[] | undefined;
}

/** Several output messages are alternatives, each with its own conversation, unless one has another role than assistant, such as a tool's response. */
export const choicesOf = (output: readonly RawMessage[]): RecordedCall["choices"] =>
  output.every((raw) => roleOf(raw, "assistant") === "assistant") ? output.map((message) => [message]) : [output];
