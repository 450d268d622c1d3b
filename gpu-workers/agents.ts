/** @file The agents that a process hosts: each with its tools and its policy, on an engine or behind an API. */
import type { AgentConfig } from "../core/contracts/agent-config.ts";
import { isEndpointPolicy } from "../core/contracts/language-model.ts";
import type { Allowance } from "../core/contracts/rollout.ts";
import { ownerOf, policySettings } from "../core/contracts/shared-policy.ts";
import type { ChatModel } from "../core/language-model-ports.ts";
import type { PolicyEngine, Tool } from "../core/ports.ts";
import { agentPayments } from "../core/training/api-spending.ts";
import type { BusyMeter } from "./busy.ts";
import type { Checkpoints } from "./checkpoints.ts";
import { engineOptions } from "./engine-options.ts";
import { LatencyLog } from "./latencies.ts";
import { type HostedAgent, toolsOf } from "./rollouts/agent.ts";
import { endpointPolicy } from "./rollouts/endpoint/policy.ts";
import { openPolicyVersions, type PolicyVersions } from "./rollouts/policy-versions.ts";
import type { RunContext } from "./run-context.ts";

export interface AgentParts {
  readonly run: RunContext;
  /** All tools of the recipe. */
  readonly tools: ReadonlyMap<string, Tool>;
  /** Tool budget of a rollout; absent: no limit. */
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
  latencies: LatencyLog = new LatencyLog(),
): Map<string, HostedAgent> {
  const hosted = Object.entries(parts.run.config.agents).filter(([name]) => who === "*" || who === name);
  const policies = new Map<string, PolicyVersions>();
  const agents = hosted.map(
    ([name, config]): HostedAgent => ({
      name,
      config,
      policy: policyOf(parts, name, policies, checkpoints, meter, who === "*"),
      tools: toolsOf(name, config, parts.tools),
      draws: parts.run.config.draws,
      toolSeconds: parts.run.config.limits.toolSeconds,
      ...(parts.allowance && { allowance: parts.allowance }),
      onTimed({ address, path }, result) {
        if (address.phase !== "train") return;
        latencies.add(address, path, result.latencies);
        meter.addTurns(result.conversation, result.latencies);
      },
    }),
  );
  return new Map(agents.map((agent) => [agent.name, agent]));
}

/**
 * @param opened the policies opened so far, by owner: agents that share a policy share its samplers.
 * @param isTeam whether this process hosts the whole team: if so, only one version of a policy stays open.
 */
function policyOf(
  { run, engineOf, apiOf }: AgentParts,
  name: string,
  opened: Map<string, PolicyVersions>,
  checkpoints: Checkpoints,
  meter: BusyMeter,
  isTeam: boolean,
): PolicyVersions {
  const { agents, limits, staleness } = run.config;
  const owner = ownerOf(agents, name);
  const config = policySettings(agents, name);
  if (isEndpointPolicy(config.policy))
    return endpointPolicy(config, apiOf(config), agentPayments(run.store.table, run.name));
  const options = { limits, versions: isTeam ? 1 : staleness + 1, log: run.log };
  const policy =
    opened.get(owner) ?? openPolicyVersions(owner, config, engineOf(config.policy), checkpoints, meter, options);
  opened.set(owner, policy);
  return policy;
}

/** Logs what the engine of each policy computes on. Rejects if the GPU, or the server or its model, is unavailable. */
export async function verifyEngines(
  { engineOf, run }: AgentParts,
  agents: ReadonlyMap<string, HostedAgent>,
  checkpoints: Checkpoints,
): Promise<void> {
  const { agents: team } = run.config;
  for (const name of new Set([...agents.keys()].map((agent) => ownerOf(team, agent)))) {
    const config = policySettings(team, name);
    const engine = isEndpointPolicy(config.policy) ? undefined : engineOf(config.policy);
    const computesOn = await engine?.computesOn?.(engineOptions(config));
    if (computesOn !== undefined) run.log.info("engine", { of: name, computesOn });
    if (!engine?.check) continue;
    const base = await checkpoints.manifest(name, 0);
    await engine.check(await checkpoints.files(base, "inference"), engineOptions(config));
  }
}
