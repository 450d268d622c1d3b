/** @file An agent that this process hosts: its config, policy and tools, and one of its conversations at a pinned version. */
import type { AgentConfig } from "../../core/contracts/agent-config.ts";
import type { Question } from "../../core/contracts/question.ts";
import type { Allowance, CallPath, RolloutAddress, Sampling } from "../../core/contracts/rollout.ts";
import type { Draws } from "../../core/contracts/runner.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Tool } from "../../core/ports.ts";
import type { StreamName } from "../../core/random.ts";
import { cancelable } from "../limits.ts";
import type { Delegate } from "./answer-calls.ts";
import { type ConversationProgress, type ConversationResult, converse } from "./converse.ts";
import { scopeOf, streamName } from "./draws.ts";
import type { Lease, PolicyVersions } from "./policy-versions.ts";

export interface HostedAgent {
  readonly name: string;
  readonly config: AgentConfig;
  readonly policy: PolicyVersions;
  readonly tools: ReadonlyMap<string, Tool>;
  readonly draws: Draws;
  /** Limit on the time of one tool call; absent: none. */
  readonly toolSeconds?: number;
  /** Tool budget of a rollout that it starts, sub-agents included; absent: no limit. */
  readonly allowance?: Allowance;
  /** Observes how long the turns of its finished conversations took. */
  readonly onTimed?: (request: ConversationRequest, result: ConversationResult) => void;
  /** Observes its conversations. */
  readonly onProgress?: (progress: ConversationProgress, path: CallPath) => void;
}

/** An agent's tools, selected from its recipe's. */
export function toolsOf(
  name: string,
  config: AgentConfig,
  recipeTools: ReadonlyMap<string, Tool>,
): ReadonlyMap<string, Tool> {
  return new Map(
    config.tools.map((tool) => {
      const found = recipeTools.get(tool);
      if (found) return [tool, found];
      const known = [...recipeTools.keys()].join(", ") || "none";
      throw new MgrpoError(
        "recipe-invalid",
        `agents.${name}.tools: the recipe has no tool '${tool}' (it has ${known})`,
      );
    }),
  );
}

export interface ConversationRequest {
  readonly address: RolloutAddress;
  readonly version: number;
  readonly question: Question;
  /** The question's prompt, or the subtask. */
  readonly prompt: string;
  readonly delegate: Delegate;
  readonly sampling: Sampling;
  /** First parts of the names of its random streams, one per turn: run seed and purpose. */
  readonly purpose: StreamName;
  readonly path: CallPath;
  readonly closedBook: boolean;
  /** Its tool budget; undefined: no limit. */
  readonly allowance: Allowance | undefined;
}

/** Counts conversations in this process: two attempts at one conversation must not share a sequence in the engine's KV cache. */
let conversations = 0;

export async function runConversation(
  agent: HostedAgent,
  request: ConversationRequest,
  signal: AbortSignal,
): Promise<ConversationResult> {
  const lease = await acquireLease(agent.policy, request.version, signal);
  try {
    const result = await converseWith(agent, lease, request, signal);
    agent.onTimed?.(request, result);
    return result;
  } finally {
    lease.release();
  }
}

/** Rejects as soon as the signal aborts. A lease that arrives later is released. */
export async function acquireLease(
  policy: Pick<PolicyVersions, "acquire">,
  version: number,
  signal: AbortSignal,
): Promise<Lease> {
  const acquired = policy.acquire(version);
  try {
    return await cancelable(acquired, signal);
  } catch (error) {
    acquired.then(
      (lease) => lease.release(),
      () => {},
    );
    throw error;
  }
}

function converseWith(
  agent: HostedAgent,
  lease: Lease,
  request: ConversationRequest,
  signal: AbortSignal,
): Promise<ConversationResult> {
  const { name, config, tools, toolSeconds, draws } = agent;
  const { address, version, sampling, path } = request;
  const place = placeOf(path);
  const scope = scopeOf(request.purpose, address, name);
  const nameOf = (turn: number, tokens: readonly number[]) => streamName(draws, scope, [place, "turn", turn], tokens);
  const sequence = `${[...scope, place].join("/")}#${conversations++}`;
  return converse({
    backend: lease.backend({ agent: name, version, config, tools, sampling, streamName: nameOf, sequence }),
    limits: config.limits,
    address,
    question: request.question,
    prompt: request.prompt,
    delegate: request.delegate,
    sequence,
    closedBook: request.closedBook,
    toolSeconds,
    allowance: request.allowance,
    onProgress: agent.onProgress && ((progress) => agent.onProgress?.(progress, path)),
    signal,
  });
}

/** Part of the names of the conversation's random streams, unless `draws` is `tokens`: changing a word or number here changes the samples. */
function placeOf(path: CallPath): string | number {
  const [first, ...deeper] = path;
  if (first === undefined) return "asked";
  return deeper.length === 0 ? first : path.join(".");
}
