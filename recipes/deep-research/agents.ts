/** @file The team's agents: those for which the user set a model or a server get the defaults for an LLM, and each gets the tools of its role. */
import type { AgentConfig } from "../../core/contracts/agent-config.ts";
import { READ_ATTACHMENT } from "../../core/contracts/attachment.ts";
import type { Arm, RunConfigInput } from "../../core/contracts/config.ts";
import { LORA_POLICIES } from "../../core/contracts/lora.ts";
import { ownerOf } from "../../core/contracts/shared-policy.ts";
import type { Chosen } from "../../core/training/resolve-config.ts";
import { type Role, SYSTEM } from "./system.ts";

type AgentInputs = RunConfigInput["agents"];
type AgentInput = AgentInputs[string];

/** `shipped`: the team with its shipped models. */
export function agentsOf(shipped: AgentInputs, chosen: Chosen): AgentInputs {
  const size = Object.keys(shipped).length;
  const agents = Object.entries(shipped).map(([name, agent]): [string, AgentInput] => {
    const role = roleOf(agent, size);
    const hasLlm = isLlm(name, chosen);
    const tools = [...extraTools(role, hasLlm, chosen), ...(agent.tools ?? [])];
    const own = hasLlm ? llm(name, agent, role, chosen) : agent;
    const owner = policyOwner(name, chosen);
    const isShared = owner !== name && Object.hasOwn(shipped, owner) && isLlm(owner, chosen);
    return [name, { ...(isShared ? sharing(owner, own) : own), tools }];
  });
  return Object.fromEntries(agents);
}

/** An agent that shares the owner's policy, without the settings that it takes from the owner. */
function sharing(owner: string, agent: AgentInput): AgentInput {
  const { model: _model, lora: _lora, trained: _trained, optimizer: _optimizer, engine: _engine, ...own } = agent;
  return { ...own, policy: `of:${owner}` as const };
}

function roleOf({ delegates = [] }: AgentInput, teamSize: number): Role {
  if (teamSize === 1) return "alone";
  return delegates.length > 0 ? "planner" : "searcher";
}

/** What the user chose, with the policy that the arm `shared-policy` gives to every agent but the main one. */
export function withArm(arm: Arm, chosen: Chosen): Chosen {
  if (arm !== "shared-policy") return chosen;
  return (path) => chosen(path) ?? (/^agents\.(?!main\.)[^.]+\.policy$/.test(path) ? "of:main" : undefined);
}

const chosenPolicy = (name: string, chosen: Chosen): string => String(chosen(`agents.${name}.policy`) ?? "compiled");

/** The agent whose policy an agent has: itself, unless it shares another's. */
const policyOwner = (name: string, chosen: Chosen): string =>
  ownerOf({ [name]: { policy: chosenPolicy(name, chosen) } }, name);

/** The policy of an agent; where it shares another's, that of the other. */
const policyOf = (name: string, chosen: Chosen): string => chosenPolicy(policyOwner(name, chosen), chosen);

const isRemote = (policy: string): boolean => /^(tinker|openai|bedrock)(:|$)/.test(policy);

/** Whether the user set a model or a server for the agent, or for the one whose policy it shares. */
export function isLlm(name: string, chosen: Chosen): boolean {
  const models = [name, policyOwner(name, chosen)].map((agent) => chosen(`agents.${agent}.model`));
  return models.some((model) => model !== undefined) || isRemote(policyOf(name, chosen));
}

/**
 * An LLM needs a system message, room for thoughts and pages, and a small learning rate. A local run trains an adapter, so that it fits
 * into a workstation's memory. On a Tinker server, gradients are not clipped by default, since SkyRL does not clip them.
 */
function llm(name: string, shipped: AgentInput, role: Role, chosen: Chosen): AgentInput {
  const policy = policyOf(name, chosen);
  const isTinker = policy.startsWith("tinker:");
  const isApi = isRemote(policy) && !isTinker;
  const contextTokens = isRemote(policy) ? 32_768 : 4096;
  const limits: AgentConfig["limits"] = {
    turns: 16,
    turnTokens: contextTokens / 4,
    contextTokens,
    calls: 4,
    responseCharacters: isApi ? contextTokens : 2 * contextTokens,
    ...(!isApi && { responseTokens: contextTokens / 4 }),
  };
  return {
    ...shipped,
    system: SYSTEM[role],
    limits,
    lora: LORA_POLICIES.includes(policy) ? {} : null,
    optimizer: { learningRate: 4e-5, schedule: "linear", maxGradientNorm: isTinker ? null : 1 },
    engine: { slots: isRemote(policy) ? 32 : 8, microBatchTokens: contextTokens },
  };
}

/** For agents that answer the question: `reason` if it is configured, and, for an LLM, the tool that reads attachments if a suite uses GAIA. */
function extraTools(role: Role, hasLlm: boolean, chosen: Chosen): readonly string[] {
  if (role === "searcher") return [];
  return [
    ...(chosen("tools.reason") === undefined ? [] : ["reason"]),
    ...(hasLlm && asksGaia(chosen("evaluation.suites")) ? [READ_ATTACHMENT] : []),
  ];
}

/** `suites` as the user set them: a list, or single entries by index. */
const asksGaia = (suites: unknown): boolean =>
  Object.values(suites ?? {}).some((suite: { benchmark?: unknown } | null) => suite?.benchmark === "gaia");
