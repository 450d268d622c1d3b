/** @file A model call as a span records it: its input messages, its output messages and its tools. */
import type { RawMessage } from "./message.ts";
import type { ToolDefinition } from "./tools.ts";

export interface RecordedCall {
  readonly input: readonly RawMessage[];
  readonly output: readonly RawMessage[];
  readonly tools: readonly ToolDefinition[] | undefined;
}
