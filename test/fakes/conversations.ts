/** @file What tests of conversations share: an agent with tools, a question, and a delegate that answers from a function. */
import { z } from "zod";
import { AgentConfig } from "../../core/contracts/agent-config.ts";
import type { Question } from "../../core/contracts/question.ts";
import type { AnyTrajectory, RolloutAddress, Trajectory } from "../../core/contracts/rollout.ts";
import type { Sampler, Tokenizer, Tool } from "../../core/ports.ts";
import type { Delegate } from "../../gpu-workers/rollouts/answer-calls.ts";
import type { AgentBackend, BackendOptions } from "../../gpu-workers/rollouts/backend.ts";
import { type ConversationResult, type ConverseOptions, converse } from "../../gpu-workers/rollouts/converse.ts";
import { tokenBackend } from "../../gpu-workers/rollouts/token-backend.ts";
import { type Reply, type ScriptedSampler, scriptedSampler } from "./scripted-sampler.ts";

export const question: Question = {
  id: "q1",
  kind: "hop1",
  level: 1,
  prompt: "What is it?",
  answer: "Paris",
  facts: {},
};

export const address: RolloutAddress = { run: "run", phase: "train", step: 0, group: 0, rollout: 0 };

/** The text of a call as a model writes it. */
export function callText(name: string, args: Record<string, unknown>): string {
  return `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`;
}

/** A tool `search` whose response to a query is what `run` returns. */
export function searchTool(
  run: (query: string, signal: AbortSignal) => string | Promise<string>,
): ReadonlyMap<string, Tool> {
  const search: Tool<{ query: string }> = {
    name: "search",
    description: "Finds pages.",
    parameters: z.strictObject({ query: z.string() }),
    run: async ({ query }, { signal }) => run(query, signal),
  };
  return new Map([[search.name, search]]);
}

/** Delegates to sub-agents that report what the function returns; null: the sub-agent ended without an answer. */
export function reporting(
  report: (agent: string, task: string, call: number) => Promise<string | null> | string | null,
): Delegate {
  return async ({ agent, task, call }) => {
    const answer = await report(agent, task, call);
    const id = String(call).padStart(22, "0");
    return { ref: { id, agent, key: `k${call}`, sha256: "0".repeat(64) }, answer };
  };
}

const anySearch = searchTool((query) => `found ${query}`);

type Varied = Partial<Omit<ConverseOptions, "limits" | "backend">> & {
  readonly limits?: Partial<AgentConfig["limits"]>;
  readonly settings?: Partial<AgentConfig>;
  readonly agent?: string;
  readonly tools?: ReadonlyMap<string, Tool>;
};

export interface Played extends ConversationResult<Trajectory> {
  readonly sampler: ScriptedSampler;
}

/** One conversation of an agent `main` that may search and delegate to `a` and `b`. */
export async function play(tokenizer: Tokenizer, reply: Reply, varied: Varied = {}): Promise<Played> {
  const sampler = scriptedSampler(tokenizer, reply);
  return { ...(await playOn(tokenizer, sampler, varied)), sampler };
}

export function playOn(
  tokenizer: Tokenizer,
  sampler: Sampler,
  varied: Varied = {},
): Promise<ConversationResult<Trajectory>> {
  return playAs((part) => tokenBackend(part, tokenizer, sampler), varied);
}

export function playAs<T extends AnyTrajectory>(
  backendOf: (part: BackendOptions) => AgentBackend<T>,
  varied: Varied = {},
): Promise<ConversationResult<T>> {
  const { limits, settings, agent = "main", tools = anySearch, sequence = "s1", ...rest } = varied;
  const config = AgentConfig.parse({
    model: "m",
    tools: ["search"],
    delegates: ["a", "b"],
    limits: { contextTokens: 4000, turnTokens: 500, ...limits },
    ...settings,
  });
  const sampling = { temperature: 1, topP: 1, topK: 0 };
  const streamName = (turn: number) => ["sample", 0, "turn", turn];
  return converse({
    backend: backendOf({ agent, version: 3, config, tools, sampling, streamName, sequence }),
    limits: config.limits,
    address,
    question,
    prompt: question.prompt,
    delegate: reporting((agent, task) => `${agent} did ${task}`),
    sequence,
    closedBook: false,
    signal: new AbortController().signal,
    ...rest,
  });
}

/** Replies in turn order. */
export function script(...turns: string[]): Reply {
  return (_, { stream }) => turns[Number(stream.at(-1))] ?? "no more turns in the script";
}
