/**
 * @file The model of a priced searcher, as its API serves it: it asks the tool for the word after the one in its task and repeats what the
 * tool says. Its replies are functions of the request. Their costs are not: each is unique in its trial, so a payment's
 * amount identifies its answer.
 */
import type { IncomingHttpHeaders } from "node:http";
import type { AgentConfig } from "../../core/contracts/agent-config.ts";
import { LIMITS } from "./limits.ts";

/** Of the API, on the world's server. */
export const API_PATH = "/agent/v1";
/** The header in which the server states what its answer costs, in micro-dollars. */
export const COST_HEADER = "x-answer-micro-usd";
/** In each process, this variable has the process's name. Requests carry it as their key, and the proxy reads it there. */
export const KEY_VARIABLE = "MGRPO_CHAOS_KEY";

/** The process that sent a request. */
export const callerOf = ({ authorization = "" }: IncomingHttpHeaders): string => authorization.replace("Bearer ", "");

/** In micro-dollars per token, or USD per million tokens. */
const PRICES = { input: 1, output: 10_000 };
/** `max_tokens` of every request. */
const TURN_TOKENS = 10_000;
/** The output's part of a request's maximum cost, in micro-dollars. An answer costs less. */
export const MAX_OUTPUT_MICRO_USD = TURN_TOKENS * PRICES.output;
/** More than a prompt costs, in micro-dollars. For all attempts at a turn together, still less than one output token costs. */
export const MAX_INPUT_MICRO_USD = 2000;

/** The most turns that one process asks for at once, and the most requests for one turn. */
export const API_SLOTS = 2;
export const API_ATTEMPTS = 4;

/** The searcher behind the API at `port`. Its limits are those of a large model: its server counts tokens as it likes. */
export function priced(searcher: AgentConfig, port: number, timeoutSeconds = LIMITS.judge): AgentConfig {
  return {
    ...searcher,
    policy: `openai:http://127.0.0.1:${port}${API_PATH}`,
    model: "priced",
    trained: false,
    engine: { ...searcher.engine, slots: API_SLOTS },
    limits: { ...searcher.limits, turnTokens: TURN_TOKENS, contextTokens: 1_000_000 },
    endpoint: {
      keyVariable: KEY_VARIABLE,
      calls: "native",
      timeoutSeconds,
      attempts: API_ATTEMPTS,
      usdPerMillionTokens: PRICES,
    },
  };
}

interface Message {
  readonly role: string;
  readonly content: string | null;
}

export interface PricedAnswer {
  readonly microUsd: number;
  /** JSON. */
  readonly body: string;
}

/** Answers requests, given as JSON. The n-th answer of a trial has n output tokens. */
export function openPricedModel(): (request: string) => PricedAnswer {
  let answers = 0;
  return (request) => {
    const { messages }: { readonly messages: readonly Message[] } = JSON.parse(request);
    const input = Math.ceil(messages.reduce((sum, { content }) => sum + (content ?? "").length, 0) / 4);
    const output = ++answers;
    const usage = { prompt_tokens: input, completion_tokens: output, total_tokens: input + output };
    const { message, finish_reason } = replyTo(messages);
    const choices = [{ index: 0, message: { role: "assistant", ...message }, finish_reason }];
    return {
      microUsd: input * PRICES.input + output * PRICES.output,
      body: JSON.stringify({
        id: `answer-${output}`,
        object: "chat.completion",
        created: 0,
        model: "priced",
        choices,
        usage,
      }),
    };
  };
}

function replyTo(messages: readonly Message[]) {
  const found = messages.find(({ role }) => role === "tool");
  if (found) return { message: { content: found.content }, finish_reason: "stop" };
  const task = messages.find(({ role }) => role === "user")?.content ?? "";
  const word = task.replace("look up ", "").split(" ")[0];
  const lookup = { name: "lookup", arguments: JSON.stringify({ word }) };
  const tool_calls = [{ id: "call_1", type: "function", function: lookup }];
  return { message: { content: null, tool_calls }, finish_reason: "tool_calls" };
}
