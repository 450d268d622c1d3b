/**
 * @file Agents that share a policy. `policy: "of:<other>"` gives an agent the weights of the other, the policy's owner: one model, one
 * optimizer, one version per step. Each agent with the policy, the owner included, keeps its own prompts, tools, limits, groups and settings
 * of the algorithm.
 *
 *     owner        its model, lora, trained, optimizer and engine are the policy's; its manifests are the policy's versions; its worker trains it
 *     other agent  its worker only samples, from the owner's versions
 */
import * as z from "zod";
import { MgrpoError } from "../errors.ts";
import type { ConfigFault } from "./config-fault.ts";
import { AgentName } from "./names.ts";

/** Settings that belong to the policy. An agent that shares it takes them from the owner. */
const SHARED_SETTINGS = ["model", "lora", "trained", "optimizer", "engine"] as const;

type RawSettings = Readonly<Record<string, unknown>>;

interface Sharing {
  readonly policy?: string | undefined;
}

type SharingTeam<A extends Sharing> = Readonly<Record<string, A>>;

/** The agent with this name. Undefined if the team has none, even if every object inherits a property with the name. */
const agentNamed = <A>(agents: Readonly<Record<string, A>>, name: string): A | undefined =>
  Object.hasOwn(agents, name) ? agents[name] : undefined;

/** The name in `of:<other>`; undefined for any other policy. */
const namedOwner = (policy: unknown): string | undefined =>
  typeof policy === "string" && policy.startsWith("of:") ? policy.slice("of:".length) : undefined;

/** The agent whose weights an agent has: its own name, unless it shares another's policy. */
export const ownerOf = (agents: SharingTeam<Sharing>, agent: string): string =>
  namedOwner(agents[agent]?.policy) ?? agent;

/** Whether an agent owns its weights, even if other agents share them. */
export const ownsPolicy = (agents: SharingTeam<Sharing>, agent: string): boolean => ownerOf(agents, agent) === agent;

/** The agents with the owner's policy, in the order of the config. */
export const agentsOfPolicy = (agents: SharingTeam<Sharing>, owner: string): string[] =>
  Object.keys(agents).filter((name) => ownerOf(agents, name) === owner);

/** Every agent, with its owner's policy in place of `of:<other>`. */
export function resolvePolicies<A extends Sharing>(agents: SharingTeam<A>): Record<string, A> {
  return Object.fromEntries(
    Object.entries(agents).map(([name, agent]) => {
      const { policy } = agentNamed(agents, ownerOf(agents, name)) ?? agent;
      return [name, { ...agent, policy }];
    }),
  );
}

/** The settings of an agent's policy: its owner's, with a context that holds the conversations of every agent with the policy. */
export function policySettings<A extends Sharing & { readonly limits: { readonly contextTokens: number } }>(
  agents: SharingTeam<A>,
  agent: string,
): A {
  const owner = ownerOf(agents, agent);
  const settings = agentNamed(agents, owner);
  if (!settings) throw new MgrpoError("config-invalid", `no agent '${owner}' in agents`);
  const sharing = agentsOfPolicy(agents, owner);
  if (sharing.length === 1) return settings;
  const contextTokens = Math.max(...sharing.map((name) => agents[name]?.limits.contextTokens ?? 0));
  return { ...settings, limits: { ...settings.limits, contextTokens } };
}

/** Each agent's share of its policy's loss. The shares sum to 1. */
export function sharesOf(
  agents: SharingTeam<Sharing & { readonly share?: number }>,
  owner: string,
): Map<string, number> {
  const shares = agentsOfPolicy(agents, owner).map((name) => [name, agents[name]?.share ?? 1] as const);
  const total = shares.reduce((sum, [, share]) => sum + share, 0);
  return new Map(shares.map(([name, share]) => [name, share / total]));
}

/** An agent's place in a policy that it shares. */
export const SharedPolicy = z.strictObject({
  owner: AgentName,
  /** Of the policy's loss. */
  share: z.number(),
});
export type SharedPolicy = z.infer<typeof SharedPolicy>;

/** By agent; without the agents that share nothing. */
export function sharedPolicies(agents: Parameters<typeof sharesOf>[0]): Record<string, SharedPolicy> {
  const shared = Object.keys(agents).flatMap((name): [string, SharedPolicy][] => {
    const owner = ownerOf(agents, name);
    const shares = sharesOf(agents, owner);
    return shares.size > 1 ? [[name, { owner, share: shares.get(name) ?? 0 }]] : [];
  });
  return Object.fromEntries(shared);
}

/** Gives each agent the settings of its policy that it does not set itself, from the owner. Anything that is not a team is returned as it is. */
export function withInherited(agents: unknown): unknown {
  if (!isSettings(agents)) return agents;
  return mapSharing(agents, (agent, owner) => ({ ...pick(owner, SHARED_SETTINGS), ...agent }));
}

/**
 * The opposite of `withInherited`: drops the settings that an agent repeats, so that changing the owner's setting in a stored config changes it
 * for all agents with the policy.
 */
export function withoutInherited<T>(agents: T): T {
  if (!isSettings(agents)) return agents;
  return mapSharing(agents, (agent, owner) => {
    // An owner that shares a policy itself is refused: the agent keeps its settings, so that the error is not that they are missing.
    if (namedOwner(owner["policy"]) !== undefined) return agent;
    const repeated = SHARED_SETTINGS.filter((key) => JSON.stringify(agent[key]) === JSON.stringify(owner[key]));
    return Object.fromEntries(Object.entries(agent).filter(([key]) => !(repeated as string[]).includes(key)));
  }) as T;
}

/** Maps the agents that share another's policy. */
function mapSharing(agents: RawSettings, map: (agent: RawSettings, owner: RawSettings) => RawSettings): RawSettings {
  return Object.fromEntries(
    Object.entries(agents).map(([name, agent]) => {
      const owner = isSettings(agent) ? agentNamed(agents, namedOwner(agent["policy"]) ?? "") : undefined;
      return [name, isSettings(agent) && isSettings(owner) ? map(agent, owner) : agent];
    }),
  );
}

const isSettings = (value: unknown): value is RawSettings =>
  value !== null && typeof value === "object" && !Array.isArray(value);

const pick = (from: RawSettings, keys: readonly string[]): RawSettings =>
  Object.fromEntries(keys.flatMap((key) => (from[key] === undefined ? [] : [[key, from[key]]])));

interface Shareable {
  readonly policy: string;
  readonly share?: number;
}

/** Policies that cannot be shared, and settings that would be ignored: path and message. */
export function sharedPolicyFaults(
  agents: SharingTeam<Shareable>,
  isEndpoint: (policy: string) => boolean,
): ConfigFault[] {
  return Object.entries(agents).flatMap(([name, agent]): ConfigFault[] => {
    const owner = namedOwner(agent.policy);
    if (owner !== undefined) return sharingFaults(agents, name, owner, isEndpoint);
    if (agent.share === undefined || agentsOfPolicy(agents, name).length > 1) return [];
    return [[["agents", name, "share"], "does nothing: no other agent has its policy; remove it"]];
  });
}

function sharingFaults(
  agents: SharingTeam<Shareable>,
  name: string,
  owner: string,
  isEndpoint: (policy: string) => boolean,
): ConfigFault[] {
  const policy = ["agents", name, "policy"];
  const isShareable = (agent: Shareable) => namedOwner(agent.policy) === undefined && !isEndpoint(agent.policy);
  const others = Object.entries(agents).flatMap(([other, agent]) =>
    other !== name && isShareable(agent) ? [other] : [],
  );
  const instead = others.length > 0 ? `write of:${others.join(" or of:")}` : "give it a policy of its own";
  const ownerSettings = agentNamed(agents, owner);
  if (owner === name) return [[policy, `an agent cannot share its own policy: ${instead}`]];
  if (!ownerSettings) return [[policy, `no agent '${owner}' in agents: ${instead}`]];
  const ownersOwner = namedOwner(ownerSettings.policy);
  if (ownersOwner !== undefined) {
    return [[policy, `'${owner}' has no policy of its own, but that of '${ownersOwner}': ${instead}`]];
  }
  if (isEndpoint(ownerSettings.policy)) {
    return [[policy, `'${owner}' is behind an API and has no weights to share: repeat its policy and model here`]];
  }
  return SHARED_SETTINGS.flatMap((key): ConfigFault[] => {
    const [here, there] = [agents[name], ownerSettings].map((agent) => JSON.stringify(Object(agent)[key]));
    return here === there
      ? []
      : [[["agents", name, key], `differs from that of '${owner}', whose policy it shares: remove it`]];
  });
}
