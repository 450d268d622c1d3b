/**
 * @file Answers the calls of one turn, all in parallel; the answers are in the order of the calls. Tools start first: the budget that
 * they leave is split among the delegations. What the calls reserve of the budget is available again once all have ended. The first rejection
 * cancels the other calls and is propagated unchanged.
 */
import { fileURLToPath } from "node:url";
import { linkSignals, withAnySignal } from "../../core/any-signal.ts";
import type { ToolCall, ToolResponse } from "../../core/contracts/conversation.ts";
import type { Allowance, InvocationRef, InvocationReport } from "../../core/contracts/rollout.ts";
import type { PlannedCall } from "../../core/conversation/reducer.ts";
import { escapeSpecialTokens, presentResponse } from "../../core/conversation/special-tokens.ts";
import type { ToolBudget } from "../../core/conversation/tool-budget.ts";
import { DELEGATE } from "../../core/conversation/toolbox.ts";
import { errorText, isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { Tool, ToolContext } from "../../core/ports.ts";
import { framesOf } from "../../core/stack-frames.ts";
import { withinSeconds } from "../limits.ts";

/** What the caller reads if a sub-agent ended without an answer: that agent's failure, not the infrastructure's. */
export const NO_REPORT = "no report";

export interface DelegationRequest {
  readonly agent: string;
  readonly task: string;
  /** Index of the delegation in the conversation, in text order. */
  readonly call: number;
  /** Its share of the conversation's remaining allowance. */
  readonly allowance: Allowance | undefined;
}

/** Runs a sub-agent. */
export type Delegate = (request: DelegationRequest, signal: AbortSignal) => Promise<InvocationReport>;

/** What a conversation's calls share. */
export interface CallContext {
  readonly toolContext: Omit<ToolContext, "signal">;
  readonly tools: ReadonlyMap<string, Tool>;
  readonly delegate: Delegate;
  readonly budget: ToolBudget;
  /** Tools do not run: their responses are empty. */
  readonly closedBook: boolean;
  /** Time limit of one tool call; undefined: none. */
  readonly toolSeconds?: number | undefined;
  /** Names the conversation in errors. */
  readonly sequence: string;
  /** Called as each call completes. */
  readonly onResponse: (call: ToolCall, response: ToolResponse) => void;
}

export interface AnsweredCall {
  readonly response: ToolResponse;
  /** For delegations: the invocation and its descendants. */
  readonly invocations: readonly InvocationRef[];
  /** From its start to its response. */
  readonly seconds: number;
}

type PlannedTool = Extract<PlannedCall, { kind: "tool" }>;
type PlannedDelegation = Extract<PlannedCall, { kind: "delegate" }>;

/** Rejects as soon as the signal aborts, even if a call ignores cancellation. */
export async function answerCalls(
  calls: readonly PlannedCall[],
  context: CallContext,
  signal: AbortSignal,
): Promise<AnsweredCall[]> {
  throwIfAborted(signal, context.sequence);
  const failed = new AbortController();
  const { signal: canceled, unlink } = linkSignals(signal, failed.signal);
  const aborted = new Promise<never>((_, reject) => {
    canceled.addEventListener("abort", () => reject(abortError(signal, context.sequence)), { once: true });
  });
  try {
    const answers = await Promise.race([aborted, Promise.all(startAll(calls, context, canceled))]);
    context.budget.endTurn();
    return answers;
  } catch (error) {
    failed.abort(error);
    throw error;
  } finally {
    unlink();
  }
}

function startAll(calls: readonly PlannedCall[], context: CallContext, signal: AbortSignal): Promise<AnsweredCall>[] {
  const answers: Promise<AnsweredCall>[] = [];
  const delegations: { readonly position: number; readonly call: PlannedDelegation }[] = [];
  for (const [position, call] of calls.entries()) {
    if (call.kind === "tool") answers[position] = answerByTool(call, context, signal);
    else delegations.push({ position, call });
  }
  const allowances = context.budget.split(delegations.length);
  for (const [i, { position, call }] of delegations.entries()) {
    answers[position] = answerBySubAgent(call, allowances[i], context, signal);
  }
  return answers;
}

async function answerBySubAgent(
  { agent, task, call }: PlannedDelegation,
  allowance: Allowance | undefined,
  { delegate, budget, toolContext, onResponse }: CallContext,
  signal: AbortSignal,
): Promise<AnsweredCall> {
  const since = performance.now();
  const request = { agent, task: escapeSpecialTokens(task), call, allowance };
  const { ref, answer, spent, invocations = [] } = await delegate(request, signal);
  if (spent) budget.settle(spent);
  const response = { name: DELEGATE, text: present(answer ?? NO_REPORT, toolContext), invocation: ref.id };
  onResponse({ name: DELEGATE, arguments: { agent, task } }, response);
  return { response, invocations: [ref, ...invocations], seconds: secondsSince(since) };
}

async function answerByTool(call: PlannedTool, context: CallContext, signal: AbortSignal): Promise<AnsweredCall> {
  const since = performance.now();
  const text = context.closedBook ? "" : present(await runTool(call, context, signal), context.toolContext);
  const response = { name: call.name, text };
  context.onResponse({ name: call.name, arguments: call.arguments }, response);
  return { response, invocations: [], seconds: secondsSince(since) };
}

/** Seconds since a time of `performance.now()`, rounded to milliseconds. */
export const secondsSince = (since: number): number => Math.round(performance.now() - since) / 1000;

/**
 * An error other than an MgrpoError (of any copy of the class: a recipe may load its own), or a result that is not a string, is a fault of the
 * tool's backend: it must not become text or reward.
 */
async function runTool(call: PlannedTool, context: CallContext, signal: AbortSignal): Promise<string> {
  const { tools, toolContext, toolSeconds } = context;
  const tool = tools.get(call.name);
  if (!tool) throw new RangeError(`tool '${call.name}' was parsed but does not exist`);
  // The parser has checked the arguments against this schema; a map of tools cannot express their type.
  const run = (until: AbortSignal) =>
    tool.run(tool.parameters.parse(call.arguments) as never, { ...toolContext, signal: until });
  const late = () =>
    new MgrpoError("deadline", `tool '${call.name}' took more than limits.toolSeconds ${toolSeconds}`, {
      retryable: true,
    });
  try {
    const text: unknown =
      toolSeconds === undefined
        ? await run(signal)
        : await withinSeconds(toolSeconds, late, (limit) => withAnySignal([signal, limit], run));
    if (typeof text === "string") return text;
    throw new TypeError(`it returned ${text === null ? "null" : typeof text} instead of a string`);
  } catch (cause) {
    if (isMgrpoError(cause)) throw cause;
    if (signal.aborted) throw new MgrpoError("canceled", `tool '${call.name}' was canceled`, { cause });
    const reason = `${errorText(cause)}${placeOf(cause)}`;
    const { id } = toolContext.question;
    throw new MgrpoError("tool-backend", `tool '${call.name}' failed on question '${id}': ${reason}`, {
      retryable: true,
      cause,
      evidence: call.arguments,
    });
  }
}

/** ` (at <file>:<line>:<column>)`: the innermost frame in the tool's own code; empty if the stack has none. */
function placeOf(cause: unknown): string {
  const frame = framesOf(cause, fileURLToPath).find((one) => !/^node:|[/\\]node_modules[/\\]/.test(one));
  return frame === undefined || frame.startsWith(OWN_FILE) ? "" : ` (at ${frame})`;
}

const OWN_FILE = fileURLToPath(import.meta.url);

function present(text: string, { responseCharacters, responseTokens }: CallContext["toolContext"]): string {
  return presentResponse(text, responseCharacters, responseTokens);
}

export function throwIfAborted(signal: AbortSignal, sequence: string): void {
  if (signal.aborted) throw abortError(signal, sequence);
}

export function abortError(signal: AbortSignal, sequence: string): MgrpoError {
  const cause: unknown = signal.reason;
  return isMgrpoError(cause) ? cause : new MgrpoError("canceled", `conversation ${sequence} was canceled`, { cause });
}
