/**
 * @file Messages between an app and its agents, independent of any API's format: what a request asks an agent, and its reply. The gateway of the
 * main agent's worker passes them on to the worker that hosts the agent.
 */
import * as z from "zod";
import { AgentName, RunName, Version } from "./names.ts";
import { BranchCounts, InvocationRef, RolloutAddress, Sampling } from "./rollout.ts";

/** One tool call. */
export const AppToolCall = z.strictObject({
  id: z.string().min(1),
  name: z.string().min(1),
  /** The arguments as JSON text. */
  arguments: z.string(),
});
export type AppToolCall = z.infer<typeof AppToolCall>;

/** One message. `call`: which call of the preceding assistant message this tool message answers, by index. */
export const AppMessage = z.discriminatedUnion("role", [
  z.strictObject({ role: z.literal("system"), text: z.string() }),
  z.strictObject({ role: z.literal("user"), text: z.string() }),
  z.strictObject({ role: z.literal("assistant"), text: z.string(), calls: z.array(AppToolCall) }),
  z.strictObject({ role: z.literal("tool"), call: z.int().nonnegative(), text: z.string() }),
]);
export type AppMessage = z.infer<typeof AppMessage>;

/** A tool that a request offers, in the OpenAI function format. */
export const OfferedTool = z.strictObject({
  type: z.literal("function"),
  function: z.strictObject({ name: z.string().min(1).max(128), description: z.string(), parameters: z.json() }),
});
export type OfferedTool = z.infer<typeof OfferedTool>;

/** What an app asks of an agent in one request. */
export const TurnRequest = z.strictObject({
  messages: z.array(AppMessage).min(1),
  tools: z.array(OfferedTool),
  /** Whether the reply may call tools. */
  mayCall: z.boolean(),
  /** Limit on the new tokens of the reply, in addition to the agent's own. Absent: only the agent's own. */
  maxTokens: z.int().positive().exactOptional(),
  /** Texts at which the reply ends, without containing them. */
  stopStrings: z.array(z.string().min(1)).max(16),
  /** Distinguishes requests that are otherwise equal and meant to differ: the request's `seed` and `user`. Empty: neither is set. */
  variant: z.string().max(5000),
});
export type TurnRequest = z.infer<typeof TurnRequest>;

/** An agent's reply. */
export const TurnReply = z.strictObject({
  /** Identifies the exchange within its session. */
  exchange: z.string(),
  /** Free text, without thinking and calls. If a call is not accepted, all calls stay in it (core/gateway/reply.ts). */
  text: z.string(),
  thinking: z.string(),
  calls: z.array(AppToolCall),
  /** `length`: the limit on tokens was reached. */
  stopReason: z.enum(["stop", "length", "calls"]),
  /** The request's stop string that ended it. Absent: none did. */
  stoppedBy: z.string().exactOptional(),
  usage: z.strictObject({ inputTokens: z.int().nonnegative(), outputTokens: z.int().nonnegative() }),
  /** The sampled tokens, as text, and their log-probs at the sampling temperature. */
  tokens: z.array(z.strictObject({ text: z.string(), logProb: z.number() })),
});
export type TurnReply = z.infer<typeof TurnReply>;

/** One agent's part of one attempt at a rollout by an app. */
export const AgentSession = z.strictObject({
  /** Identifies the attempt: shared by its agents, and by no other attempt. */
  id: z.string().regex(/^[\w-]{22}$/),
  run: RunName,
  address: RolloutAddress,
  questionId: z.string(),
  agent: AgentName,
  version: Version,
  sampling: Sampling,
});
export type AgentSession = z.infer<typeof AgentSession>;

/** Body of `POST /sessions/<id>/turns`, from the main agent's worker to a sub-agent's. */
export const SessionTurn = z.strictObject({
  session: AgentSession,
  request: TurnRequest,
});
export type SessionTurn = z.infer<typeof SessionTurn>;

/** Body of `POST /sessions/<id>/end`. */
export const SessionEnd = z.strictObject({
  session: AgentSession,
  /** The exchanges whose replies reached the app. */
  delivered: z.array(z.string()),
  /**
   * Strings in the arguments of the main agent's calls, in order. They decide the order of the conversations: each has the position of the
   * longest string that its task contains (`byTask` in core/gateway/branch.ts).
   */
  callTexts: z.array(z.string()),
});
export type SessionEnd = z.infer<typeof SessionEnd>;

/** The response to `POST /sessions/<id>/end`. */
export const EndedSession = z.strictObject({
  /** Its delivered conversations, committed. */
  invocations: z.array(InvocationRef),
  counts: BranchCounts,
});
export type EndedSession = z.infer<typeof EndedSession>;
