/** @file The agents that a process hosts: each with its policy, on an engine of this machine or behind an API, and its tools. */
import type { AgentConfig } from "../core/contracts/agent-config.ts";
import { isEndpointPolicy } from "../core/contracts/language-model.ts";
import type { Allowance } from "../core/contracts/rollout.ts";
import type { ChatModel } from "../core/language-model-ports.ts";
import type { PolicyEngine, Tool } from "../core/ports.ts";
import { payAgent } from "../core/training/bills.ts";
import type { BusyMeter } from "./busy.ts";
import type { Checkpoints } from "./checkpoints.ts";
import { engineOptions, openPolicy, type Policy } from "./policy.ts";
import { type Agent, toolsOf } from "./rollouts/agent.ts";
import { endpointPolicy } from "./rollouts/endpoint/policy.ts";
import type { Run } from "./run.ts";

export interface AgentParts {
  readonly run: Run;
  /** The recipe's. */
  readonly tools: ReadonlyMap<string, Tool>;
  /** What a rollout may ask of them. */
  readonly allowance?: Allowance;
  engineOf(policy: string): PolicyEngine;
  /** The model of an agent whose policy is an API. */
  apiOf(agent: AgentConfig): ChatModel;
}

/** @param who an agent's name, or `*` for the whole team. */
export function openAgents(
  parts: AgentParts,
  who: string,
  checkpoints: Checkpoints,
  meter: BusyMeter,
): Map<string, Agent> {
  const hosted = Object.entries(parts.run.config.agents).filter(([name]) => who === "*" || who === name);
  const policyOf = (name: string, config: AgentConfig): Policy =>
    isEndpointPolicy(config.policy)
      ? endpointPolicy(config, parts.apiOf(config), (usd) => payAgent(parts.run.store.table, parts.run.name, usd))
      : openPolicy(name, config, parts.engineOf(config.policy), checkpoints, meter);
  return new Map(
    hosted.map(([name, config]) => [
      name,
      {
        ...{ name, config, policy: policyOf(name, config), tools: toolsOf(name, config, parts.tools) },
        ...(parts.allowance && { allowance: parts.allowance }),
      },
    ]),
  );
}

/** Rejects when what an agent's engine computes on is not there: a GPU, or a server with its model. Says what it is. */
export async function checkEngines(
  { engineOf, run }: AgentParts,
  agents: ReadonlyMap<string, Agent>,
  checkpoints: Checkpoints,
): Promise<void> {
  for (const { name, config } of agents.values()) {
    const engine = isEndpointPolicy(config.policy) ? undefined : engineOf(config.policy);
    const computesOn = await engine?.computesOn?.(engineOptions(config));
    if (computesOn !== undefined) run.log.info("engine", { of: name, computesOn });
    if (!engine?.check) continue;
    const base = await checkpoints.manifest(name, 0);
    await engine.check(await checkpoints.files(base, "inference"), engineOptions(config));
  }
}
