/** @file A conversation of one agent as data: enough to score and display it without a tokenizer. */
import * as z from "zod";

/**
 * Maximum levels of objects and arrays in JSON from agents, apps and servers. Code that reads JSON recurses once per level, and overflows the stack
 * at a few thousand.
 */
export const MAX_DEPTH = 100;

/** One `<tool_call>` that an agent emitted. */
export const ToolCall = z.strictObject({
  name: z.string(),
  arguments: z
    .unknown()
    .refine(isShallow, { error: `more than ${MAX_DEPTH} levels deep` })
    .pipe(z.record(z.string(), z.json())),
});
export type ToolCall = z.infer<typeof ToolCall>;

/** Whether the value has at most `MAX_DEPTH` levels. */
export function isShallow(value: unknown): boolean {
  let level = [value].filter(isContainer);
  for (let depth = 0; depth < MAX_DEPTH; depth++) {
    level = level.flatMap((container): unknown[] => Object.values(container)).filter(isContainer);
    if (level.length === 0) return true;
  }
  return false;
}

const isContainer = (value: unknown): value is object => value !== null && typeof value === "object";

/** The response to one call. `invocation`: for a delegation, the id of the sub-agent's record. */
export const ToolResponse = z.strictObject({
  name: z.string(),
  text: z.string(),
  invocation: z.string().optional(),
});
export type ToolResponse = z.infer<typeof ToolResponse>;

/** One assistant turn, and the responses to its calls in the order of the calls. */
export const Turn = z.strictObject({
  text: z.string(),
  calls: z.array(ToolCall),
  responses: z.array(ToolResponse),
});
export type Turn = z.infer<typeof Turn>;

/** Why a conversation ended. All but `answered` are the agent's own failures, to which eq 4 and 5 give 0. */
export const StopReason = z.enum(["answered", "malformed", "turn-limit", "token-limit"]);
export type StopReason = z.infer<typeof StopReason>;

/**
 * What one agent read and wrote in a rollout, as text: the main agent's conversation, or a sub-agent's about one subtask. Tokens and log-probs
 * are in its `Trajectory`.
 */
export const Conversation = z.strictObject({
  /** The question, or the delegated subtask. */
  prompt: z.string(),
  turns: z.array(Turn),
  stop: StopReason,
  /**
   * The text inside the final `<answer>`; for an app, what it returned, or its main agent's last reply if it returned only a reward; for an
   * app's sub-agent, its last reply. Null unless `stop` is `answered`.
   */
  answer: z.string().nullable(),
  /** Why it is `malformed`, if that is known. Null otherwise. */
  fault: z.string().nullable(),
});
export type Conversation = z.infer<typeof Conversation>;
